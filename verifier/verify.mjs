// The verification of SPEC.md section 9, step by step, over bytes. Keys come from the verifier, never from the record.

import { hex, Invalid, Unusable } from "./bytes.mjs";
import { State } from "./fold.mjs";
import { Authority, authorityOf, followed, isPrivate, lastTrustedOf, signedEntry } from "./keys.mjs";
import { balance } from "./prices.mjs";
import { parse } from "./profile.mjs";
import { requireEntry } from "./schema.mjs";
import { envelope, Key, leafHash, parseHead, parseProof, requireHeadSigned, requireIncluded, requireOrigin, Tree } from "./signed.mjs";
import { cosigned, isCosigned } from "./witnesses.mjs";

const TOGETHER = 256; // signatures that are checked at once
const LONGEST_LINE = 65535;
const ZEROS = "0".repeat(64);
const LF = 10;
const COSIGNED =
  "too few of the witnesses that you trust cosigned the record's own checkpoint: give a cosigned one as well, from a witness or from the team (dpledger witness ask)";

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
  if (isPrivate(text)) {
    throw new Unusable("this is a PRIVATE key, which signs: a verifier needs the public one (.pub). If anybody saw it, replace it");
  }
  try {
    return Key.parse(text.trim());
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Unusable(`${error.reason}. Paste the line of the .pub file`);
  }
}

/**
 * Goes through the leaves in order, steps 6 and 7; calls `next(entry, authority)` with each and who signed before it, and
 * `advance(done)` after some. Returns who signs afterwards.
 */
async function readThrough(leaves, origin, next, advance = () => {}) {
  let previous = ZEROS;
  let authority;
  for (let from = 0; from < leaves.length; from += TOGETHER) {
    const some = leaves.slice(from, from + TOGETHER).map((leaf) => attempt(() => envelope(leaf)));
    const signed = await Promise.all(some.map(({ value }) => value && checked(value, authority, from)));
    for (let place = 0; place < some.length; place++) {
      const index = from + place;
      try {
        if (some[place].error) throw some[place].error;
        const entry = await entryAt(index, leaves[index], some[place].value, signed[place], origin, authority);
        if (entry.previous !== previous) throw new Invalid("does not follow the entry before it");
        previous = hex(leafHash(leaves[index]));
        await next(entry, authority);
        authority = authority ? authority.after(index, entry) : Authority.opened(entry);
      } catch (error) {
        throw error instanceof Invalid ? error.at(index) : error;
      }
    }
    await advance(from + some.length);
  }
  return authority;
}

/** The key that signed, if it is the one that was in force before these leaves. */
async function checked({ keyId, signature, message }, authority, from) {
  const key = authority?.usual(from);
  return key?.id === keyId && (await key.holds(signature, message)) ? key : undefined;
}

/** The entry of a leaf, of which it may be known already which key signed it. */
async function entryAt(index, leaf, { keyId, payload }, signer, origin, authority) {
  if (!signer || authority.oneOf(index, keyId) !== signer) return signedEntry(index, leaf, origin, authority);
  const entry = parse(payload);
  requireEntry(entry);
  authority.require(index, entry, keyId);
  if (entry.index !== index) throw new Invalid(`says that it is entry ${entry.index}`);
  if (entry.ledger !== origin) throw new Invalid(`is an entry of another ledger: ${entry.ledger}`);
  return entry;
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
 * is called with (done, all) now and then, and waited for. `since`: the bytes of a head that the verifier kept.
 * `witnesses`: a Policy of the verifier's own, a quorum of which must have cosigned that head, or without one the
 * record's, or else Unusable asks for one. Raises Invalid at the first breach, Newer at what a later version wrote.
 *
 * What is returned says what was verified, what is left of each scope's budget, what was not recomputed, and how many
 * entries stand under a head that somebody else holds (`witnessed`).
 */
export async function verify(entries, head, key, { advance = () => {}, since, witnesses } = {}) {
  const signed = await headOf(head, key);
  const kept = since && keptHead(since, key);
  if (witnesses && !kept && !(await isCosigned(signed, witnesses))) throw new Unusable(COSIGNED);
  const seen = witnesses ? await cosigned(kept ?? signed, witnesses) : [];
  const leaves = lines(entries, signed.size + 1);
  const tree = new Tree();
  let root = tree.root(); // of as many leaves as the kept head covers
  for (const leaf of leaves) {
    tree.add(leafHash(leaf));
    if (tree.size === kept?.size) root = tree.root();
  }
  if (tree.size !== signed.size || hex(tree.root()) !== hex(signed.root)) await nameTheEntry(leaves, signed);
  if (kept) requireContinued(kept, signed, root);
  const lastTrusted = leaves.length ? lastTrustedOf(leaves.at(-1)) : undefined;
  const requireSigned = async (authority) => {
    authority.requireTrusted(key, lastTrusted);
    await requireHeadSigned(signed, authority.ofHead(signed.size));
    if (kept) await requireKeptSigned(kept, signed, authority);
  };
  let wrong; // an entry at fault: this one, or one before it, is named below
  try {
    await requireSigned(await followed(leaves, signed.origin));
  } catch (error) {
    if (!(error instanceof Invalid) || error.index === undefined) throw error;
    wrong = error;
  }
  const state = new State(lastTrusted);
  const kinds = {};
  const skipped = [];
  const fold = async (entry, authority) => {
    await state.requireApproval(entry, authority);
    state.step(entry, authority).forEach((what) => skipped.push({ index: entry.index, what }));
    kinds[entry.kind] = (kinds[entry.kind] ?? 0) + 1;
  };
  const authority = await readThrough(leaves, signed.origin, fold, (done) => advance(done, signed.size));
  if (wrong) throw wrong;
  await requireSigned(authority);
  return {
    ledger: signed.origin,
    size: signed.size,
    root: hex(signed.root),
    key: key.text,
    witnessed: seen.length ? (kept ?? signed).size : kept?.size < signed.size ? kept.size : 0,
    is_own: !seen.length && kept?.size === signed.size,
    seen,
    witnesses_named: state.witnesses,
    key_in_force: authority.own(signed.size).text,
    keys: {
      given: key.text,
      in_force: authority.revoked ? null : authority.own(signed.size).text,
      owner: authority.owner?.text ?? null,
    },
    revoked: authority.revoked ? { index: signed.size - 1, last_trusted: lastTrusted } : null,
    last_trusted: lastTrusted,
    kinds,
    closed: state.closed,
    rollbacks: state.rollbacks,
    elsewhere: state.elsewhere,
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

/** What a head from before shows of what `verify` returned, and what it does not. */
export function whoHasSeen({ size, witnessed, is_own: isOwn, seen }) {
  if (isOwn) return "The checkpoint that you gave is this record's own, or as new as it: it shows nothing about earlier copies. Keep it, and give it the next time.";
  if (!witnessed) return "You gave no checkpoint from before: that none of the last entries was cut off cannot be seen from the record alone.";
  if (seen.length && witnessed === size) return "Witnesses cosigned the newest entry: none was cut off, and no copy went on by itself before it.";
  const follow = size - witnessed === 1 ? "1 entry follows" : `${size - witnessed} entries follow`;
  return `${follow} the checkpoint that you gave; that none was cut off after it cannot be seen from the record alone.`;
}

/**
 * Verifies a proof of one entry (SPEC.md section 11) with a Key of the verifier's own. Raises Invalid, Newer as `verify`.
 *
 * It shows this entry and a head that covers it; no other entry, and so not that this one is a legal step.
 */
export async function verifyProof(data, key) {
  const { index, leaves: [leaf, ...named], path, head } = parseProof(data);
  const signed = await headOf(head, key);
  const { authority, lastTrusted } = await authorityOf(named, signed, key);
  await requireHeadSigned(signed, authority.ofHead(signed.size));
  try {
    requireIncluded(index, signed.size, leafHash(leaf), path, signed.root);
    const entry = await signedEntry(index, leaf, signed.origin, authority);
    const trusted = lastTrusted === undefined || index <= lastTrusted;
    return { ledger: signed.origin, index, size: signed.size, root: hex(signed.root), key: key.text, trusted, entry };
  } catch (error) {
    throw error instanceof Invalid ? error.at(index) : error;
  }
}

/** A head of the key's ledger. If it bears the key's signature, that holds; whose it must bear, the record says. */
async function headOf(bytes, key) {
  const head = parseHead(bytes);
  requireOrigin(head, key);
  if (head.lines.some((line) => line.name === key.name && line.id === key.id)) await requireHeadSigned(head, key);
  return head;
}

/** The head in bytes that a verifier kept. Whose signature it must bear, the record says. */
function keptHead(bytes, key) {
  try {
    const head = parseHead(bytes);
    requireOrigin(head, key);
    return head;
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Unusable(`the checkpoint that you kept: ${error.reason}`);
  }
}

/** Step 4: the record, whose first leaves have this root, continues a head that was kept. */
function requireContinued(kept, signed, root) {
  if (kept.size > signed.size) throw new Invalid(`the record ends here, a remembered checkpoint covers ${kept.size} entries`, signed.size);
  if (hex(root) !== hex(kept.root)) {
    const reason = `at or before this entry, the record is not the one that a remembered checkpoint of ${kept.size} entries is of`;
    throw new Invalid(reason, Math.max(0, kept.size - 1));
  }
}

async function requireKeptSigned(kept, signed, authority) {
  try {
    await requireHeadSigned(kept, kept.size === signed.size ? authority.ofHead(kept.size) : authority.usual(kept.size));
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Unusable(`the checkpoint that you kept, of ${kept.size} entries, no key of this ledger signed: ${error.reason}`);
  }
}

/** The leaves are not those of the head: says which entry is at fault. */
async function nameTheEntry(leaves, signed) {
  await readThrough(leaves, signed.origin, () => {});
  if (leaves.length < signed.size) throw new Invalid(`the record ends here, its checkpoint covers ${signed.size} entries`, leaves.length);
  if (leaves.length > signed.size) throw new Invalid(`beyond the signed checkpoint, which covers ${signed.size} entries`, signed.size);
  throw new Invalid("each entry is signed and linked, and yet the signed checkpoint is of others", leaves.length - 1);
}

