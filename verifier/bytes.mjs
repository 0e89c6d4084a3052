// Bytes: SHA-256 (FIPS 180-4), strict base64 (RFC 4648 section 4), hexadecimal, UTF-8; and the errors of this verifier.

/** The record breaks a rule of SPEC.md. `index`: of the entry at fault, undefined where none can be named. */
export class Invalid extends Error {
  constructor(reason, index) {
    super(index === undefined ? reason : `entry ${index}: ${reason}`);
    this.name = this.constructor.name;
    this.reason = reason;
    this.index = index;
  }

  /** The same, at the entry `index`, where none is named yet. */
  at(index) {
    return this.index === undefined ? new this.constructor(this.reason, index) : this;
  }
}

/** A word or a version that a later format may have added: neither verified nor refuted. */
export class Newer extends Invalid {}

/** What the verifier was given cannot be used: no key, no bundle, no Ed25519 in this browser. */
export class Unusable extends Error {
  constructor(reason) {
    super(reason);
    this.name = "Unusable";
  }
}

const ROUND = new Uint32Array([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
  0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
  0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
  0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
  0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
  0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2,
]);
const FIRST = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
const WORDS = new Uint32Array(64);

const turned = (word, by) => (word >>> by) | (word << (32 - by));

function block(state, data, from) {
  for (let i = 0; i < 16; i++) {
    const at = from + 4 * i;
    WORDS[i] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = WORDS[i - 15];
    const y = WORDS[i - 2];
    const low = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
    const high = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
    WORDS[i] = WORDS[i - 16] + low + WORDS[i - 7] + high;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i++) {
    const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[i] + WORDS[i]) | 0;
    const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    state[i] += word;
  });
}

/** SHA-256 of the concatenation of `parts` (Uint8Arrays): 32 bytes. */
export function sha256(...parts) {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const padded = new Uint8Array(((size + 72) >> 6) << 6);
  let at = 0;
  for (const part of parts) {
    padded.set(part, at);
    at += part.length;
  }
  padded[size] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(size / 2 ** 29));
  view.setUint32(padded.length - 4, (size << 3) >>> 0);
  const state = new Uint32Array(FIRST);
  for (let from = 0; from < padded.length; from += 64) block(state, padded, from);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Bytes in lower-case hexadecimal. */
export const hex = (bytes) => Array.from(bytes, (byte) => DIGITS[byte]).join("");

/** The bytes of an even number of hexadecimal digits. */
export const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16));

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const ENCODER = new TextEncoder();

/** Text in UTF-8. */
export const utf8 = (text) => ENCODER.encode(text);

/** The text of bytes that must be UTF-8, a byte order mark kept. */
export function text(bytes, what) {
  try {
    return DECODER.decode(bytes);
  } catch {
    throw new Invalid(`${what}: not UTF-8`);
  }
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$/;

/** The bytes whose padded base64 is exactly `encoded`: no spare bits, no other alphabet. */
export function base64(encoded, what) {
  if (encoded.includes("\n") || !BASE64.test(encoded)) throw new Invalid(`${what}: not base64 that re-encodes to itself`);
  return Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
}
