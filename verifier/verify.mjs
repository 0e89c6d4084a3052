// The verification of SPEC.md section 9, step by step, over bytes. Keys come from the verifier, never from the record.

import { hex, Invalid, Unusable } from "./bytes.mjs";
import { State } from "./fold.mjs";
import { balance } from "./prices.mjs";
import { parse } from "./profile.mjs";
import { requireEntry } from "./schema.mjs";
import { cosigned } from "./witnesses.mjs";
import { envelope, Key, leafHash, parseProof, requireIncluded, Tree, verifyHead } from "./signed.mjs";

const TOGETHER = 256; // signatures that are checked at once
const LONGEST_LINE = 65535;
const ZEROS = "0".repeat(64);
const LF = 10;

/** The leaves of `entries.jsonl`, at most `most`: what stands before each line feed. */
export function lines(data, most = Infinity) {
  const found = [];
  for (let from = 0; from < data.length && found.length < most; ) {
    const end = data.indexOf(LF, from);
    const length = (end < 0 ? data.length : end) - from;
    if (length > LONGEST_LINE || (end < 0 && length === LONGEST_LINE + 1)) {
      throw new Invalid("longer than an entry may be", found.length);
    }
    if (end < 0) throw new Invalid("its line does not end: the file was truncated", found.length);
    found.push(data.subarray(from, end));
    from = end + 1;
  }
  return found;
}

/** The key of a verifier, as text; white space around it is left away. Unusable for what is no key. */
export function keyOf(text) {
  try {
    return Key.parse(text.trim());
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Unusable(error.reason);
  }
}

/** The entry that a leaf is at `index`, its signature held or not: steps 5 and 6, but for what it follows. */
function entryAt(index, { keyId, payload }, isSigned, key) {
  if (keyId !== key.id) throw new Invalid(`signed by key ${keyId}, the key in force is ${key.id}`);
  if (!isSigned) throw new Invalid(`not signed by the key ${key.id}`);
  const entry = parse(payload);
  requireEntry(entry);
  if (entry.index !== index) throw new Invalid(`says that it is entry ${entry.index}`);
  if (entry.ledger !== key.name) throw new Invalid(`is an entry of another ledger: ${entry.ledger}`);
  return entry;
}

/** Goes through the leaves in order, steps 5 and 6; calls `next(entry)` with each, and `advance(done)` after some. */
async function readThrough(leaves, key, next, advance = () => {}) {
  let previous = ZEROS;
  for (let from = 0; from < leaves.length; from += TOGETHER) {
    const some = leaves.slice(from, from + TOGETHER).map((leaf) => attempt(() => envelope(leaf)));
    const signed = await Promise.all(
      some.map(({ value }) => value && value.keyId === key.id && key.holds(value.signature, value.message)),
    );
    for (let place = 0; place < some.length; place++) {
      const index = from + place;
      try {
        if (some[place].error) throw some[place].error;
        const entry = entryAt(index, some[place].value, signed[place], key);
        if (entry.previous !== previous) throw new Invalid("does not follow the entry before it");
        previous = hex(leafHash(leaves[index]));
        await next(entry);
      } catch (error) {
        throw error instanceof Invalid ? error.at(index) : error;
      }
    }
    await advance(from + some.length);
  }
}

function attempt(make) {
  try {
    return { value: make() };
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    return { error };
  }
}

/**
 * Verifies a bundle: `entries` and `head` are the bytes of its two files, `key` a Key of the verifier's own. `advance`
 * is called with (done, all) now and then, and waited for; `witnesses` is a Policy of the verifier's own, a quorum of which must have cosigned the head. Raises Invalid at the first breach, Newer at what a later version wrote.
 *
 * What is returned says what was verified, what is left of each scope's budget, and what was not recomputed.
 */
export async function verify(entries, head, key, { advance = () => {}, witnesses } = {}) {
  const signed = await verifyHead(head, key);
  const seen = witnesses ? await cosigned(signed, witnesses) : [];
  const leaves = lines(entries, signed.size + 1);
  const tree = new Tree();
  leaves.forEach((leaf) => tree.add(leafHash(leaf)));
  if (tree.size !== signed.size || hex(tree.root()) !== hex(signed.root)) await nameTheEntry(leaves, key, signed);
  const state = new State(key);
  const kinds = {};
  const skipped = [];
  const fold = async (entry) => {
    await state.requireApproval(entry);
    state.step(entry).forEach((what) => skipped.push({ index: entry.index, what }));
    kinds[entry.kind] = (kinds[entry.kind] ?? 0) + 1;
  };
  await readThrough(leaves, key, fold, (done) => advance(done, signed.size));
  return {
    ledger: signed.origin,
    size: signed.size,
    root: hex(signed.root),
    key: key.text,
    seen,
    kinds,
    closed: state.closed,
    open: [...state.open].map(([charge, { reserved, scope, redeem }]) => ({ charge, reserved, scope, started: redeem !== undefined })),
    scopes: [...state.scopes.values()].map((scope) => ({
      scope: scope.name,
      unit: scope.unit.name,
      relation: scope.relation,
      budget: scope.budget,
      filter: scope.filter.kind,
      closed: scope.closed,
      accounts: balance(scope.filter, scope.sums),
      prices_not_recomputed: scope.skipped,
    })),
    not_recomputed: skipped,
  };
}

/**
 * Verifies a proof of one entry (SPEC.md section 11) with a Key of the verifier's own. Raises Invalid, Newer as `verify`.
 *
 * It shows this entry and a head that covers it; no other entry, and so not that this one is a legal step.
 */
export async function verifyProof(data, key) {
  const { index, leaf, path, head } = parseProof(data);
  const signed = await verifyHead(head, key);
  try {
    requireIncluded(index, signed.size, leafHash(leaf), path, signed.root);
    const sealed = envelope(leaf);
    const isSigned = sealed.keyId === key.id && (await key.holds(sealed.signature, sealed.message));
    const entry = entryAt(index, sealed, isSigned, key);
    return { ledger: signed.origin, index, size: signed.size, root: hex(signed.root), key: key.text, entry };
  } catch (error) {
    throw error instanceof Invalid ? error.at(index) : error;
  }
}

/** The leaves are not those of the head: says which entry is at fault. */
async function nameTheEntry(leaves, key, signed) {
  await readThrough(leaves, key, () => {});
  if (leaves.length < signed.size) throw new Invalid(`the record ends here, its head covers ${signed.size} entries`, leaves.length);
  if (leaves.length > signed.size) throw new Invalid(`beyond the signed head, which covers ${signed.size} entries`, signed.size);
  throw new Invalid("each entry is signed and linked, and yet the signed head is of others", leaves.length - 1);
}

