// What the verifier in JavaScript says of many cases at once: a JSON list on standard input, another on standard output.

import { readFileSync } from "node:fs";
import { base64, Invalid, Newer, Unusable, hex, sha256, unhex } from "../../verifier/bytes.mjs";
import { priced } from "../../verifier/prices.mjs";
import * as profile from "../../verifier/profile.mjs";
import { envelope, Key, leafHash, requireConsistent, requireIncluded, Tree, verifyHead } from "../../verifier/signed.mjs";
import { keyOf, verify, verifyProof } from "../../verifier/verify.mjs";
import { cosigned, Policy, policyOf } from "../../verifier/witnesses.mjs";

const must = (holds) => {
  if (!holds) throw new Invalid("not of this form");
};
const bytes = (encoded) => base64(encoded, "case");
const hashes = (proof) => proof.map(unhex);

const JUDGES = {
  bundle: async ({ entries, head, key, since }) =>
    verify(bytes(entries), bytes(head), keyOf(key), { since: since && bytes(since) }),
  proof: async ({ data, key }) => {
    const { index, size, root } = await verifyProof(bytes(data), keyOf(key));
    return { index, size, root };
  },
  payload: ({ data }) => profile.dump(profile.parse(bytes(data))).length,
  envelope: async ({ data, key }) => {
    const { keyId, signature, message } = envelope(bytes(data));
    const own = Key.parse(key);
    must(keyId === own.id && (await own.holds(signature, message)));
    return hex(leafHash(bytes(data)));
  },
  head: async ({ data, key }) => {
    const { size, root } = await verifyHead(bytes(data), Key.parse(key));
    return { size, root: hex(root) };
  },
  key: ({ text }) => Key.parse(text).text,
  policy: ({ text }) => void Policy.parse(text),
  cosigned: async ({ data, key, witnesses }) => cosigned(await verifyHead(bytes(data), Key.parse(key)), policyOf(witnesses)),
  price: ({ tree, relation, orders }) => {
    const found = priced(tree, relation, orders.map((order) => profile.number(order)));
    return Object.fromEntries(Object.entries(found).map(([name, size]) => [name, size === undefined ? null : profile.numberText(size)]));
  },
  ids: ({ text }) => must(profile.isId(text)),
  ledger_ids: ({ text }) => must(profile.isLedgerId(text)),
  times: ({ text }) => must(profile.isTime(text)),
  numbers: ({ text, ...options }) => must(profile.number(text, options) !== undefined),
  sha256: ({ data }) => hex(sha256(bytes(data))),
  roots: ({ leaves }) => {
    const tree = new Tree();
    return [hex(tree.root()), ...leaves.map((leaf) => (tree.add(leafHash(unhex(leaf))), hex(tree.root())))];
  },
  inclusion: (one) => requireIncluded(one.index, one.size, unhex(one.leaf_hash), hashes(one.proof), unhex(one.root)),
  consistency: (one) =>
    requireConsistent(one.old_size, one.new_size, unhex(one.old_root), unhex(one.new_root), hashes(one.proof)),
};

async function judged(one) {
  try {
    return { accepted: true, found: (await JUDGES[one.judge](one)) ?? null };
  } catch (error) {
    const isDeclared = error instanceof Invalid || error instanceof Unusable;
    if (!isDeclared) return { crash: error.stack };
    return { accepted: false, newer: error instanceof Newer, index: error.index ?? null, reason: error.message };
  }
}

const found = [];
for (const one of JSON.parse(readFileSync(0, "utf8"))) found.push(await judged(one));
process.stdout.write(JSON.stringify(found));
