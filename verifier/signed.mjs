// Envelopes, heads and keys (SPEC.md sections 2 to 4), and the Merkle tree with its proofs. Ed25519 is WebCrypto's.

import { base64, hex, Invalid, sha256, text, Unusable, utf8 } from "./bytes.mjs";
import { isLedgerId } from "./profile.mjs";

const MOST_BYTES = 65535;
const MOST_HEAD_BYTES = 524288;
const MOST_SIGNATURES = 64;
const TYPE = "application/vnd.dpledger.entry.v1+json";
const ENVELOPE = new RegExp(
  '^\\{"payload":"([A-Za-z0-9+/=]*)","payloadType":"([^"\\\\]*)","signatures":\\[\\{"keyid":"([0-9a-f]{8})","sig":"([A-Za-z0-9+/=]*)"\\}\\]\\}$',
);

// ---- keys -----------------------------------------------------------------------------------------------------------

const PRIME = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

function power(base, exponent) {
  let result = 1n;
  for (let left = exponent, square = base % PRIME; left > 0n; left >>= 1n, square = (square * square) % PRIME) {
    if (left & 1n) result = (result * square) % PRIME;
  }
  return result;
}

const CURVE_D = (PRIME - ((121665n * power(121666n, PRIME - 2n)) % PRIME)) % PRIME;
const little = (bytes) => BigInt(`0x${hex(Uint8Array.from(bytes).reverse())}`);
const yOf = (bytes) => little(bytes) & (2n ** 255n - 1n);
const ORDER_8 = [
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
].map((digits) => yOf(Uint8Array.from(digits.match(/../g), (byte) => parseInt(byte, 16))));
const SMALL_ORDER = [0n, 1n, PRIME - 1n, ...ORDER_8];

function requirePoint(bytes) {
  const y = yOf(bytes);
  if (y >= PRIME) throw new Invalid("key: a non-canonical encoding");
  if (SMALL_ORDER.includes(y)) throw new Invalid("key: a point of small order");
  const product = ((y * y - 1n) * (CURVE_D * y * y + 1n)) % PRIME;
  if (power((product + PRIME) % PRIME, (PRIME - 1n) / 2n) !== 1n) throw new Invalid("key: no point of the curve");
}

/** A verifying key: its name, its id (8 hexadecimal digits), its point, its type: 1 of a ledger, 4 of a witness. */
export class Key {
  constructor(name, id, point, type) {
    Object.assign(this, { name, id, point, type, imported: undefined });
  }

  get text() {
    return `${this.name}+${this.id}+${btoa(String.fromCharCode(this.type, ...this.point))}`;
  }

  /** The key whose text is exactly `source`. */
  static parse(source, type = 1) {
    const found = !source.includes("\n") && /^([!-*,-~]{1,255})\+([0-9a-f]{8})\+(.+)$/.exec(source);
    if (!found) throw new Invalid("key: expected <name>+<8 hexadecimal digits>+<base64>");
    const data = base64(found[3], "key");
    if (data[0] !== type || data.length !== 33) throw new Invalid("key: not an Ed25519 key of 32 bytes");
    const point = data.slice(1);
    requirePoint(point);
    const id = hex(sha256(utf8(`${found[1]}\n`), data)).slice(0, 8);
    if (id !== found[2]) throw new Invalid(`key: the id is ${id}, which name and key give`);
    return new Key(found[1], id, point, type);
  }

  /** Whether `signature` is this key's of `message`. Unusable where there is no Ed25519. */
  async holds(signature, message) {
    if (signature.length !== 64) return false;
    if (SMALL_ORDER.includes(yOf(signature.subarray(0, 32))) || little(signature.subarray(32)) >= ORDER) return false;
    this.imported ??= load(this.point);
    return crypto.subtle.verify("Ed25519", await this.imported, signature, message);
  }
}

async function load(point) {
  try {
    return await crypto.subtle.importKey("raw", point, "Ed25519", false, ["verify"]);
  } catch {
    throw new Unusable("this browser has no Ed25519 in WebCrypto: nothing was verified; use a newer one, or Node 18");
  }
}

// ---- envelopes ------------------------------------------------------------------------------------------------------

/** The parts of a leaf in its one text: payload, key id, signature, what was signed. No signature is verified here. */
export function envelope(leaf) {
  if (leaf.length > MOST_BYTES) throw new Invalid(`envelope: more than ${MOST_BYTES} bytes`);
  const source = text(leaf, "envelope");
  const found = !source.includes("\n") && ENVELOPE.exec(source);
  if (!found) throw new Invalid("envelope: not in its one form");
  const [, encoded, type, keyId, sig] = found;
  if (type !== TYPE) throw new Invalid("envelope: of another type");
  const payload = base64(encoded, "envelope: payload");
  const signature = base64(sig, "envelope: signature");
  if (signature.length !== 64) throw new Invalid("envelope: a signature has 64 bytes");
  return { payload, keyId, signature, message: signedMessage(TYPE, payload) };
}

const AFTER_KEY_ID = '","sig":"'.length + 88 + '"}]}'.length; // 64 bytes in base64

/** The key id where a leaf in its one form has it, not checked. */
export const keyIdIn = (leaf) => String.fromCharCode(...leaf.subarray(-8 - AFTER_KEY_ID, -AFTER_KEY_ID));

/** What is signed of a payload of a type. */
export function signedMessage(type, payload) {
  const head = utf8(`DSSEv1 ${type.length} ${type} ${payload.length} `);
  const message = new Uint8Array(head.length + payload.length);
  message.set(head);
  message.set(payload, head.length);
  return message;
}

// ---- heads ----------------------------------------------------------------------------------------------------------

/** The head in a signed note, its signatures NOT verified: origin, size, root, text, and the lines. */
export function parseHead(bytes) {
  if (bytes.length > MOST_HEAD_BYTES) throw new Invalid("checkpoint: too large");
  const note = text(bytes, "checkpoint");
  if (/[\u0000-\u0009\u000b-\u001f]/.test(note)) throw new Invalid("checkpoint: a control character");
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || end + 2 === note.length || !note.endsWith("\n")) {
    throw new Invalid("checkpoint: expected a text, an empty line and signature lines");
  }
  const rows = note.slice(0, end).split("\n");
  const lines = note.slice(end + 2, -1).split("\n");
  if (rows.length !== 3) throw new Invalid("checkpoint: expected an origin, a size and a root");
  if (lines.length > MOST_SIGNATURES) throw new Invalid("checkpoint: too many signature lines");
  const [origin, count] = rows;
  if (!isLedgerId(origin)) throw new Invalid("checkpoint: the origin is no ledger id");
  const size = Number(count);
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(count) || !Number.isSafeInteger(size)) throw new Invalid("checkpoint: no size");
  const root = base64(rows[2], "checkpoint: root");
  if (root.length !== 32) throw new Invalid("checkpoint: a root has 32 bytes");
  if (size === 0 && hex(root) !== hex(sha256())) throw new Invalid("checkpoint: not the root of no leaves");
  return { origin, size, root, text: `${rows.join("\n")}\n`, lines: lines.map(signatureLine) };
}

function signatureLine(line) {
  const found = /^\u2014 ([^ ]+) ([^ ]*)$/u.exec(line);
  if (!found || [...found[1]].length > 255 || /[+\p{White_Space}]/u.test(found[1])) {
    throw new Invalid("checkpoint: a malformed signature line");
  }
  const data = base64(found[2], "checkpoint: signature");
  if (data.length <= 4) throw new Invalid("checkpoint: a signature line without a signature");
  return { name: found[1], id: hex(data.subarray(0, 4)), signature: data.slice(4) };
}

/** The head in a note, if it is of the ledger that `key` is named after and signed by it. */
export async function verifyHead(bytes, key) {
  const head = parseHead(bytes);
  requireOrigin(head, key);
  await requireHeadSigned(head, key);
  return head;
}

/** Raises unless a head is of the ledger that `key` is named after. */
export function requireOrigin({ origin }, { name }) {
  if (origin !== name) throw new Invalid(`checkpoint: of another ledger, ${origin}, but the key is of ${name}: perhaps the wrong key`);
}

/** Raises unless `key` signed a head that was read. */
export async function requireHeadSigned(head, key) {
  const own = head.lines.filter((line) => line.name === key.name && line.id === key.id);
  if (own.length !== 1) throw new Invalid(`checkpoint: expected one signature of the key ${key.id}, got ${own.length}`);
  if (!(await key.holds(own[0].signature, utf8(head.text)))) throw new Invalid(`checkpoint: not signed by the key ${key.id}`);
}

// ---- the tree -------------------------------------------------------------------------------------------------------

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);
export const leafHash = (leaf) => sha256(LEAF, leaf);
const nodeHash = (left, right) => sha256(NODE, left, right);

/** The tree as leaves are added: the roots of its full subtrees, from the largest. */
export class Tree {
  constructor() {
    this.size = 0;
    this.full = [];
  }

  add(hash) {
    let node = hash;
    for (let size = this.size; size % 2 === 1; size = (size - 1) / 2) node = nodeHash(this.full.pop(), node);
    this.full.push(node);
    this.size += 1;
  }

  root() {
    return this.size === 0 ? sha256() : this.full.reduceRight((right, left) => nodeHash(left, right));
  }
}

const equal = (left, right) => hex(left) === hex(right);

/** Raises unless `proof` (hashes) shows the leaf hash at `index` under the root of `size` leaves (RFC 9162, 2.1.3.2). */
export function requireIncluded(index, size, hash, proof, root) {
  if (!(index >= 0 && index < size)) throw new Invalid("proof: an index outside the tree");
  let place = BigInt(index);
  let last = BigInt(size) - 1n;
  let node = hash;
  for (const other of proof) {
    if (last === 0n) throw new Invalid("proof: more hashes than the tree has levels");
    if ((place & 1n) === 1n || place === last) {
      node = nodeHash(other, node);
      while ((place & 1n) === 0n && place !== 0n) [place, last] = [place >> 1n, last >> 1n];
    } else node = nodeHash(node, other);
    [place, last] = [place >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new Invalid("proof: fewer hashes than the tree has levels");
  if (!equal(node, root)) throw new Invalid("proof: of another root");
}

/** Raises unless `proof` shows that the tree of `size` leaves continues that of `older` (RFC 9162, 2.1.4.2). */
export function requireConsistent(older, size, olderRoot, root, proof) {
  if (older < 0 || older > size) throw new Invalid("proof: sizes in the wrong order");
  if (older === 0 || older === size) {
    if (proof.length) throw new Invalid("proof: hashes where none is needed");
    if (!equal(olderRoot, older === 0 ? sha256() : root)) throw new Invalid("proof: of another root");
    return;
  }
  if (!proof.length) throw new Invalid("proof: hashes are missing");
  let place = BigInt(older) - 1n;
  let last = BigInt(size) - 1n;
  while (place & 1n) [place, last] = [place >> 1n, last >> 1n];
  const hashes = place === 0n ? [olderRoot, ...proof] : proof;
  let [first] = hashes;
  let second = first;
  for (const other of hashes.slice(1)) {
    if (last === 0n) throw new Invalid("proof: more hashes than needed");
    if ((place & 1n) === 1n || place === last) {
      first = nodeHash(other, first);
      second = nodeHash(other, second);
      while ((place & 1n) === 0n && place !== 0n) [place, last] = [place >> 1n, last >> 1n];
    } else second = nodeHash(second, other);
    [place, last] = [place >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new Invalid("proof: hashes are missing");
  if (!equal(first, olderRoot) || !equal(second, root)) throw new Invalid("proof: of another root");
}

// ---- proofs of one entry --------------------------------------------------------------------------------------------

const MOST_PROOF_BYTES = 655360;
const PROOF = "c2sp.org/tlog-proof@v1";

/** Whether a file begins as a proof does, of this version or another. */
export const isProof = (data) => String.fromCharCode(...data.subarray(0, 15)) === PROOF.slice(0, 15);

function split(data) {
  const parts = [];
  let start = 0;
  for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, start)) {
    parts.push(data.subarray(start, end));
    start = end + 1;
  }
  return [...parts, data.subarray(start)];
}

/** The parts of a proof (SPEC.md section 11): index, leaves, audit path, the bytes of the head. Nothing is verified here. */
export function parseProof(data) {
  if (data.length > MOST_PROOF_BYTES) throw new Invalid("proof: too large");
  const end = data.findIndex((byte, place) => byte === 10 && data[place + 1] === 10);
  if (end < 0) throw new Invalid("proof: no empty line before the checkpoint");
  const [first, extra, index, ...path] = text(data.subarray(0, end), "proof").split("\n");
  if (first !== PROOF) throw new Invalid("proof: of another form, perhaps newer than this verifier");
  if (!extra?.startsWith("extra ")) throw new Invalid("proof: no entry in line 2");
  if (!/^index (?:0|[1-9][0-9]{0,15})$/.test(index)) throw new Invalid("proof: no index in line 3");
  return {
    index: Number(index.slice(6)),
    leaves: split(base64(extra.slice(6), "proof: extra")), // the entry's, and those that name keys
    path: path.map((line, place) => {
      const hash = base64(line, `proof: line ${place + 4}`);
      if (hash.length !== 32) throw new Invalid(`proof: line ${place + 4}: a hash has 32 bytes`);
      return hash;
    }),
    head: data.subarray(end + 2),
  };
}
