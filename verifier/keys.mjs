// Which key signs which entry (SPEC.md section 8, "Keys"): everything goes by index.

import { hex, Invalid } from "./bytes.mjs";
import { parse } from "./profile.mjs";
import { requireEntry } from "./schema.mjs";
import { envelope, Key, keyIdIn } from "./signed.mjs";

const requireThat = (holds, reason) => {
  if (!holds) throw new Invalid(reason);
};
const NAMING = ["key_rotated", "key_delegated"]; // what the ledger's key signs itself

/** The keys of a ledger as of some entry. `terms`: {key, first, last}, in the order in which they were named. */
export class Authority {
  constructor(terms, recovery, owners = [], revoked = false) {
    Object.assign(this, { terms, recovery, owners, revoked });
  }

  static opened(entry) {
    const [key, recovery] = [Key.parse(entry.public_key), Key.parse(entry.recovery_key)];
    requireThat(recovery.name === key.name && recovery.id !== key.id, "names no recovery key of its own");
    const begun = new Authority([{ key, first: 0 }], recovery);
    return "owner_key" in entry ? begun.withOwner(entry.owner_key) : begun;
  }

  get name() {
    return this.terms[0].key.name;
  }

  get owner() {
    return this.owners.at(-1);
  }

  /** The ledger's key in force at an index. */
  own(index) {
    return this.terms.findLast((term) => term.last === undefined && term.first <= index).key;
  }

  /** The key that signs an entry there which names no key. */
  usual(index) {
    const term = this.terms.findLast((one) => one.first <= index);
    return term.last === undefined || index <= term.last ? term.key : this.own(index);
  }

  ofHead(size) {
    return this.revoked ? this.recovery : this.usual(size);
  }

  /** The key with that id which may sign something there. */
  oneOf(index, keyId) {
    const usual = this.usual(index);
    const found = [usual, this.own(index), this.recovery].find((key) => key?.id === keyId);
    requireThat(found, `signed by key ${keyId}, the key in force is ${usual.id}`);
    return found;
  }

  /** Raises unless the key with that id signs this entry there. */
  require(index, { kind }, keyId) {
    requireThat(kind !== "key_revoked" || this.recovery, "its recovery key is not known here");
    const expected = kind === "key_revoked" ? this.recovery : NAMING.includes(kind) ? this.own(index) : this.usual(index);
    requireThat(keyId === expected.id, `signed by key ${keyId}, an entry of this kind by ${expected.id}`);
  }

  /** Raises unless a verifier's key is, or was, the ledger's own, and no revocation takes it back. */
  requireTrusted(key, lastTrusted = Infinity) {
    const named = this.terms.find((term) => term.last === undefined && term.key.text === key.text);
    requireThat(named, `the key ${key.id} is none of this record's own`);
    requireThat(named.first - 1 <= lastTrusted, `the key ${key.id} was named after entry ${lastTrusted}, and all that came after that was revoked: give the key before`);
  }

  /** The keys once `entry` stands at `index`. */
  after(index, entry) {
    switch (entry.kind) {
      case "key_rotated":
        return this.withTerm({ key: this.requireNew(entry.public_key), first: index + 1 });
      case "key_delegated":
        return this.delegating(index, entry);
      case "owner_rotated":
        requireThat(this.owner, "a new owner, where the ledger names none");
        return this.withOwner(entry.owner_key);
      case "key_revoked":
        requireThat(entry.last_trusted < index, "trusts entries that are not there yet");
        return new Authority(this.terms, this.recovery, this.owners, true);
      default:
        return this;
    }
  }

  delegating(index, { public_key: named, last }) {
    requireThat((named === undefined) === (last === undefined), "a delegation names a key and its last entry, or neither");
    if (named === undefined) {
      requireThat(this.usual(index) !== this.own(index), "ends a delegation, where none is in force");
      return this.withTerm({ key: this.own(index), first: index + 1 });
    }
    requireThat(last > index, "a delegation that ends before it begins");
    return this.withTerm({ key: this.requireNew(named), first: index + 1, last });
  }

  withTerm(term) {
    return new Authority([...this.terms, term], this.recovery, this.owners, this.revoked);
  }

  requireNew(named) {
    const key = Key.parse(named);
    requireThat(key.name === this.name, "names a key of another ledger");
    requireThat(this.all().every((old) => old.id !== key.id), "names a key that was one of the ledger's before");
    requireThat(this.owners.every((old) => hex(old.point) !== hex(key.point)), "names the owner's key");
    return key;
  }

  all() {
    return [...this.terms.map((term) => term.key), ...(this.recovery ? [this.recovery] : [])];
  }

  withOwner(named) {
    const key = Key.parse(named);
    requireThat(this.all().every((own) => hex(own.point) !== hex(key.point)), "names one of its own keys as the owner's");
    requireThat(this.owners.every((old) => hex(old.point) !== hex(key.point)), "names an owner's key that was one before");
    return new Authority(this.terms, this.recovery, [...this.owners, key], this.revoked);
  }

  /** What entries after the first say of keys, as a snapshot has it. */
  later() {
    const terms = this.terms.slice(1).map(({ key, first, last }) => ({ first, key: key.text, last }));
    const owners = this.owners.slice(1).map((key) => key.text);
    return { keys: terms.length ? terms : undefined, owners: owners.length ? owners : undefined };
  }
}

/** The entry that a leaf is, its signature not verified. */
export function unverified(leaf) {
  const entry = parse(envelope(leaf).payload);
  requireEntry(entry);
  return entry;
}

/** The entry that a leaf is at `index`: all but what it follows. `authority`: undefined for the first, which names its key. */
export async function signedEntry(index, leaf, origin, authority) {
  const sealed = envelope(leaf);
  const known = authority ?? firstAuthority(leaf);
  const key = known.oneOf(index, sealed.keyId);
  requireThat(await key.holds(sealed.signature, sealed.message), `not signed by the key ${key.id}`);
  const entry = parse(sealed.payload);
  requireEntry(entry);
  known.require(index, entry, sealed.keyId);
  requireThat(entry.index === index, `says that it is entry ${entry.index}`);
  requireThat(entry.ledger === origin, `is an entry of another ledger: ${entry.ledger}`);
  requireThat(known.name === origin, "names another signing key than one of the ledger's own");
  return entry;
}

function firstAuthority(leaf) {
  const entry = unverified(leaf);
  requireThat(entry.kind === "ledger_opened", "ledger_opened is the first entry, and no other");
  return Authority.opened(entry);
}

/** Who signs, as of the end: step 5 follows the keys where the key id changes. Raises Invalid, with the index, where they do not. */
export async function followed(leaves, origin) {
  let authority;
  let usual; // the id of the key that signs the next entry, as far as is known
  let until = Infinity; // the last entry that it signs
  let looked = -1;
  const look = async (index) => {
    if (index <= looked) return;
    try {
      requireThat(!authority?.revoked, "nothing may follow a revocation");
      const entry = await signedEntry(index, leaves[index], origin, authority);
      authority = authority ? authority.after(index, entry) : Authority.opened(entry);
    } catch (error) {
      throw error instanceof Invalid ? error.at(index) : error;
    }
    looked = index;
    usual = authority.ofHead(index + 1).id;
    const { last } = authority.terms.at(-1);
    until = last > index ? last : Infinity;
  };
  for (let index = 0; index < leaves.length; index++) {
    const keyId = keyIdIn(leaves[index]);
    if (keyId === usual && index <= until) continue;
    if (authority) await look(index - 1);
    if (keyId !== usual) await look(index);
  }
  if (!leaves.length) throw new Invalid("the record has no entry", 0);
  await look(leaves.length - 1);
  return authority;
}

/** The last entry that stands, where a leaf, the last of a record, revokes the key; else undefined. */
export function lastTrustedOf(leaf) {
  try {
    const entry = unverified(leaf);
    return entry.kind === "key_revoked" ? entry.last_trusted : undefined;
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    return undefined;
  }
}

/** Who signs, by the entries that name keys alone, as of a head that is not verified, to whoever trusts `key`. */
export async function authorityOf(leaves, head, key) {
  let authority;
  let before = -1;
  let lastTrusted;
  for (const leaf of leaves) {
    const { index } = unverified(leaf);
    const isInOrder = before < index && index < head.size && (authority === undefined) === (index === 0);
    requireThat(isInOrder, "the entries that name its keys are not in order");
    requireThat(!authority?.revoked, "nothing may follow a revocation");
    const entry = await signedEntry(index, leaf, head.origin, authority);
    authority = authority ? authority.after(index, entry) : Authority.opened(entry);
    before = index;
    lastTrusted = entry.kind === "key_revoked" ? entry.last_trusted : undefined;
  }
  authority ??= new Authority([{ key, first: 0 }]);
  requireThat(!authority.revoked || before === head.size - 1, "nothing may follow a revocation");
  authority.requireTrusted(key, lastTrusted);
  return { authority, lastTrusted };
}

const PRIVATE = /^\s*(?:PRIVATE|LOCKED)\+KEY\+|-----BEGIN [A-Z ]*PRIVATE KEY-----|AGE-SECRET-KEY-/;

/** Whether what was given as a public key is a private one. */
export const isPrivate = (given) => PRIVATE.test(given);
