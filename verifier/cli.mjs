#!/usr/bin/env node
// node verifier/cli.mjs BUNDLE_OR_PROOF --key KEY [--since CHECKPOINT_OR_BUNDLE] [--witness POLICY_OR_KEY] [--json]
// Exit: 0 verified, 1 refuted, 2 cannot be used as asked, 3 what was verified holds, but its key was revoked, entries are
// missing, or it is newer than this verifier.

import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { webcrypto } from "node:crypto";
import { Invalid, Newer, Unusable } from "./bytes.mjs";
import { isProof } from "./signed.mjs";
import { keyOf, verify, verifyProof, whoHasSeen } from "./verify.mjs";
import { policyOf } from "./witnesses.mjs";

globalThis.crypto ??= webcrypto; // Node 18

const USAGE = "usage: node verifier/cli.mjs BUNDLE_OR_PROOF --key KEY [--since CHECKPOINT_OR_BUNDLE] [--witness POLICY_OR_KEY] [--json]   (each: a text, or a file that holds it)";

const SMALL = 2 ** 20; // bytes of a key, a head or a policy, at most

function options() {
  try {
    const found = parseArgs({ allowPositionals: true, options: { key: { type: "string" }, since: { type: "string" }, witness: { type: "string" }, json: { type: "boolean" } } });
    if (found.positionals.length === 1 && found.values.key) return { source: found.positionals[0], ...found.values };
  } catch {
    // said below, as for too few
  }
  throw new Unusable(USAGE);
}

/** A regular file of at most `most` bytes, or the one of that name in a folder: a pipe would wait for ever, a device has no end. */
function readFile(path, name, most = SMALL) {
  try {
    const file = name && statSync(path).isDirectory() ? join(path, name) : path;
    const found = statSync(file);
    if (!found.isFile() || found.size > most) throw new Error("expected a regular file, and none larger than such a file can be");
    return readFileSync(file);
  } catch (error) {
    throw new Unusable(`${path}: ${error.message}`);
  }
}

function say(found) {
  console.log(`verified: ${found.size} entries of ${found.ledger}`);
  console.log(`  root ${found.root}`);
  if (found.key_in_force !== found.key) console.log(`  its key was rotated; in force now: ${found.key_in_force}`);
  if (found.last_trusted !== undefined) console.log(`  its key was REVOKED: only entries up to ${found.last_trusted} are trusted`);
  console.log(`  ${whoHasSeen(found)}`);
  for (const { witness, time } of found.seen) console.log(`  cosigned by ${witness}, ${time} seconds after 1970 by its clock`);
  for (const { index, seen } of found.rollbacks) console.log(`  entry ${index}: entries are MISSING, a copy with ${seen} had been seen`);
  if (found.elsewhere.length) console.log(`  ran elsewhere, on the word of somebody: entries ${found.elsewhere.map((one) => one.index).join(", ")}`);
  for (const { scope, accounts, closed } of found.scopes) {
    console.log(`  scope ${scope}${closed ? " (closed)" : ""}`);
    for (const { account, spent, limit, left } of accounts) console.log(`    ${account}: ${spent} of ${limit}, ${left} left`);
  }
  for (const { index, what } of found.not_recomputed) console.log(`  not recomputed, entry ${index}: ${what}`);
}

function sayProven({ ledger, index, size, entry, trusted }) {
  console.log(`verified: entry ${index} of ${ledger}, as the ledger stood at ${size} entries`);
  console.log(JSON.stringify(entry, null, 2));
  if (!trusted) console.log("  the signing key was REVOKED: whoever stole it may have signed this entry");
  console.log("  a proof shows this entry alone: neither that it followed the rules, nor what came before or after it");
}

/** What is verified of `source`, a proof or the folder of a bundle, and how to say it. */
async function verified(source, own, { since, witnesses }) {
  if (statSync(source, { throwIfNoEntry: false })?.isFile()) {
    const data = readFile(source, undefined, Infinity);
    if (since || witnesses) throw new Unusable("--since and --witness are for the folder of a bundle");
    if (!isProof(data)) throw new Unusable(`${source}: neither a proof nor the folder of a bundle`);
    return [await verifyProof(data, own), sayProven];
  }
  return [await verify(readFile(join(source, "entries.jsonl"), undefined, Infinity), readFile(join(source, "checkpoint")), own, { since, witnesses }), say];
}

async function run() {
  let asJson = process.argv.includes("--json");
  try {
    const { source, key, since, witness, json = false } = options();
    asJson = json;
    const told = (given) => (existsSync(given) ? readFile(given).toString("utf8") : given);
    const own = keyOf(told(key));
    const [found, speak] = await verified(source, own, {
      since: since && readFile(since, "checkpoint"),
      witnesses: witness && policyOf(told(witness)),
    });
    if (asJson) console.log(JSON.stringify({ verified: true, ...found }));
    else speak(found);
    return found.revoked || found.rollbacks?.length || found.trusted === false ? 3 : 0;
  } catch (error) {
    const code = error instanceof Newer ? 3 : error instanceof Invalid ? 1 : error instanceof Unusable ? 2 : undefined;
    if (code === undefined) throw error;
    if (asJson) console.log(JSON.stringify({ verified: false, newer: code === 3, index: error.index, reason: error.reason ?? error.message }));
    else console.error(`${["", "not verified", "error", "newer than this verifier"][code]}: ${error.message}`);
    return code;
  }
}

process.exitCode = await run();
