// The byte profile of payloads (SPEC.md section 1) and the forms of single fields.

import { Invalid, text, utf8 } from "./bytes.mjs";

const DEEPEST = 32;
const LONGEST_TEXT = 4096;
const HIDDEN =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ud800-\udfff\u{e0000}-\u{e007f}]/u;
const KEY = /"([a-z][a-z0-9_]{0,63})":/y;
const INTEGER = /(?:0|-?[1-9][0-9]*)(?![0-9.eE])/y;
const STRING = /"((?:[^"\\\n]|\\["\\n])*)"/y;

class Reader {
  constructor(source) {
    this.source = source;
    this.place = 0;
  }

  fail(reason) {
    throw new Invalid(`payload: ${reason} at character ${this.place}`);
  }

  /** The match of a sticky pattern here; moves behind it. */
  next(pattern) {
    pattern.lastIndex = this.place;
    const found = pattern.exec(this.source);
    if (found) this.place = pattern.lastIndex;
    return found;
  }

  takes(character) {
    if (this.source[this.place] !== character) return false;
    this.place += 1;
    return true;
  }

  value(room) {
    const first = this.source[this.place];
    if (first === "{") return this.object(room);
    if (first === "[") return this.list(room);
    if (first === '"') return this.string();
    for (const [word, value] of [["true", true], ["false", false]]) {
      if (this.source.startsWith(word, this.place)) {
        this.place += word.length;
        return value;
      }
    }
    const digits = this.next(INTEGER);
    if (!digits) this.fail("no value of the profile");
    const number = Number(digits[0]);
    if (!Number.isSafeInteger(number)) this.fail("a magnitude of 2^53 or more");
    return number;
  }

  string() {
    const found = this.next(STRING);
    if (!found) this.fail("a string that does not end, or another escape");
    const value = found[1].replace(/\\(.)/g, (_, escaped) => (escaped === "n" ? "\n" : escaped));
    if (HIDDEN.test(value)) this.fail("a character that no string may hold");
    if (value.length > LONGEST_TEXT && [...value].length > LONGEST_TEXT) this.fail("more than 4,096 characters");
    return value;
  }

  object(room) {
    if (room === 0) this.fail("deeper nesting than 32 levels");
    this.place += 1;
    const members = Object.create(null);
    if (this.takes("}")) return members;
    let last = "";
    do {
      const key = this.next(KEY);
      if (!key) this.fail("no key of the profile");
      if (key[1] <= last) this.fail("keys that are not sorted, each once,");
      last = key[1];
      members[last] = this.value(room - 1);
    } while (this.takes(","));
    if (!this.takes("}")) this.fail("an object that does not end");
    return members;
  }

  list(room) {
    if (room === 0) this.fail("deeper nesting than 32 levels");
    this.place += 1;
    const items = [];
    if (this.takes("]")) return items;
    do {
      items.push(this.value(room - 1));
    } while (this.takes(","));
    if (!this.takes("]")) this.fail("a list that does not end");
    return items;
  }
}

/** The object that the bytes of a payload say. Invalid for every text but the one of the profile. */
export function parse(bytes) {
  const reader = new Reader(text(bytes, "payload"));
  if (reader.source[0] !== "{") reader.fail("no object");
  const value = reader.value(DEEPEST);
  if (reader.place !== reader.source.length) reader.fail("something after the object");
  return value;
}

/** The bytes of a value of the profile: keys sorted, no space. */
export function dump(value) {
  return utf8(JSON.stringify(sorted(value)));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object") return value;
  const names = Object.keys(value).filter((name) => value[name] !== undefined).sort();
  return Object.assign(Object.create(null), Object.fromEntries(names.map((name) => [name, sorted(value[name])])));
}

/** Whether two values of the profile have the same text. */
export const same = (left, right) =>
  left === right || (left !== undefined && right !== undefined && JSON.stringify(sorted(left)) === JSON.stringify(sorted(right)));

// ---- forms ----------------------------------------------------------------------------------------------------------

const whole = (pattern) => (value) => typeof value === "string" && !value.includes("\n") && pattern.test(value);

export const isId = whole(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$/);
export const isDigest = whole(/^[0-9a-f]{64}$/);
export const isToken = whole(/^[0-9a-f]{32}$/);
export const isWord = whole(/^[a-z][a-z0-9_]{0,63}$/);
const LEDGER_ID = whole(/^[a-z0-9][a-z0-9./_-]{0,95}[0-9a-f]{32}$|^[0-9a-f]{32}$/);
export const isLedgerId = (value) => LEDGER_ID(value) && !/[./][./]/.test(value);
export const saysSomething = (value) => /[^\n \u00a0\u1680\u2000-\u200a\u205f\u3000]/.test(value);

const TIME = /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$/;

/** A second of the Gregorian calendar in UTC. */
export function isTime(value) {
  const found = typeof value === "string" && !value.includes("\n") && TIME.exec(value);
  if (!found) return false;
  const [year, month, day] = found.slice(1, 4).map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
}

const NUMBER = /^(-?)(0|[1-9][0-9]{0,17})(?:\.([0-9]{0,59}[1-9]))?$/;
const PLACES = 60;
export const ONE = 10n ** BigInt(PLACES);

/** The number that a text says, as a whole number of 10^-60; undefined for what is no number. `Infinity` for inf. */
export function number(value, { signed = false, infinite = false } = {}) {
  if (infinite && value === "inf") return Infinity;
  const found = typeof value === "string" && !value.includes("\n") && NUMBER.exec(value);
  if (!found || (found[1] && (!signed || value === "-0"))) return undefined;
  const size = BigInt(found[2]) * ONE + BigInt((found[3] ?? "").padEnd(PLACES, "0"));
  return found[1] ? -size : size;
}

/** The one text of a number of 10^-`places`, or of Infinity. */
export function numberText(value, places = PLACES) {
  if (value === Infinity) return "inf";
  const digits = (value < 0n ? -value : value).toString().padStart(places + 1, "0");
  const fraction = digits.slice(-places).replace(/0+$/, "");
  return `${value < 0n ? "-" : ""}${digits.slice(0, -places)}${fraction && "."}${fraction}`;
}
