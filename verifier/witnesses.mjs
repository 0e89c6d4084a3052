// Witnesses (SPEC.md section 3): the policy that says which count, and what they say of a head in its signature lines.

import { Invalid, Unusable, utf8 } from "./bytes.mjs";
import { Key } from "./signed.mjs";

const COSIGNATURE = 4;
const MOST = 4096;
const NAME = /^[!-~]{1,64}$/;
const HOST = String.raw`([A-Za-z0-9_~-]{1,63}(\.[A-Za-z0-9_~-]{1,63})*|\[[0-9A-Fa-f:.]{2,45}\])`;
const PORT = ":([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"; // 1 to 65535
const ADDRESS = new RegExp(String.raw`^https?://${HOST}(${PORT})?(/[A-Za-z0-9._~%!$&'()*+,;=:-]*)*$`);
const COUNT = /^[1-9][0-9]{0,3}$/;
const requireThat = (holds, reason) => {
  if (!holds) throw new Invalid(`witnesses: ${reason}`);
};

/** Which witnesses count, and which of them together are a quorum. */
export class Policy {
  constructor() {
    this.keys = new Map(); // by name
    this.groups = new Map();
    this.quorum = undefined;
    this.members = new Set();
  }

  /** The policy whose one text is exactly `source`. */
  static parse(source) {
    requireThat(source.length <= MOST && source.endsWith("\n"), "not a policy");
    const policy = new Policy();
    for (const line of source.slice(0, -1).split("\n")) policy.line(line.split(" "));
    requireThat(policy.quorum !== undefined, "no quorum");
    requireThat(!policy.parts(policy.quorum), "two quorums without a witness in common");
    return policy;
  }

  /** The policy of one key alone, from its text. */
  static ofKey(source) {
    const policy = new Policy();
    policy.line(["witness", "witness", source]);
    policy.line(["quorum", "witness"]);
    return policy;
  }

  line([what, ...rest]) {
    requireThat(this.quorum === undefined, "a line after the quorum");
    if (what === "witness") this.witness(rest);
    else if (what === "group") this.group(rest);
    else {
      requireThat(what === "quorum" && rest.length === 1 && this.isKnown(rest[0]), "no line of a policy");
      [this.quorum] = rest;
    }
  }

  /** The names that the keys of its witnesses bear. */
  get names() {
    return [...this.keys.values()].map((key) => key.name);
  }

  isKnown(name) {
    return this.keys.has(name) || this.groups.has(name);
  }

  requireNew(name) {
    requireThat(NAME.test(name) && name !== "none" && !this.isKnown(name), "a name that is no name, or taken");
  }

  witness(words) {
    const [name, source, address] = words;
    requireThat(words.length === 2 || (words.length === 3 && ADDRESS.test(address)), "no witness");
    requireThat(this.groups.size === 0, "a witness after a group");
    this.requireNew(name);
    const key = Key.parse(source, COSIGNATURE);
    const isTaken = [...this.keys.values()].some((other) => other.point.join() === key.point.join());
    requireThat(!isTaken, "a key twice");
    this.keys.set(name, key);
  }

  group([name, least, ...members]) {
    requireThat(members.length > 0 && COUNT.test(least) && Number(least) <= members.length, "no group");
    requireThat(members.every((one) => this.isKnown(one) && !this.members.has(one)), "a member that is none, or twice");
    requireThat(new Set(members).size === members.length, "a member twice");
    this.requireNew(name);
    members.forEach((one) => this.members.add(one));
    this.groups.set(name, { least: Number(least), members });
  }

  /** Whether two sets of witnesses with none in common both meet `name`. */
  parts(name) {
    if (this.keys.has(name)) return false;
    const { least, members } = this.groups.get(name);
    return 2 * least <= members.length + members.filter((one) => this.parts(one)).length;
  }

  /** Whether the witnesses whose keys have these texts are a quorum. */
  isMet(seen, name = this.quorum) {
    if (this.keys.has(name)) return seen.has(this.keys.get(name).text);
    const { least, members } = this.groups.get(name);
    return members.filter((one) => this.isMet(seen, one)).length >= least;
  }
}

/** The policy of a verifier: its text, in the one text or as a file of C2SP, or the key of one witness. */
export function policyOf(source) {
  const rows = source.split("\n").map((line) => line.trim().split(/[ \t]+/)).filter(([first]) => first && first[0] !== "#");
  try {
    if (rows.length === 1 && rows[0].length === 1) return Policy.ofKey(rows[0][0]);
    const known = rows.filter(([first]) => first !== "log").map((row) => inOneText(row).join(" "));
    const order = ["witness", "group", "quorum"];
    known.sort((left, right) => order.indexOf(left.split(" ")[0]) - order.indexOf(right.split(" ")[0]));
    return Policy.parse(`${known.join("\n")}\n`);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new Unusable(error.reason);
  }
}

function inOneText([what, name, least, ...members]) {
  if (what !== "group") return [what, name, least, ...members].filter((word) => word !== undefined);
  return [what, name, { any: "1", all: String(members.length) }[least] ?? least, ...members];
}

/** Who of a policy cosigned a head (of `verifyHead`), and when: a list of key and time, the newest of each; Invalid for no quorum. */
export async function cosigned(head, policy) {
  const found = await cosignatures(head, policy);
  requireThat(areQuorum(found, policy), "too few of those that you trust cosigned the checkpoint");
  return found;
}

/** Whether a quorum of a policy cosigned a head. */
export const isCosigned = async (head, policy) => areQuorum(await cosignatures(head, policy), policy);

const areQuorum = (found, policy) => policy.isMet(new Set(found.map(({ witness }) => witness)));

async function cosignatures(head, policy) {
  const found = new Map();
  for (const key of policy.keys.values()) {
    for (const line of head.lines.filter((one) => one.name === key.name && one.id === key.id)) {
      requireThat(line.signature.length === 72, "a cosignature has 72 bytes");
      const view = new DataView(line.signature.buffer, line.signature.byteOffset);
      const time = view.getBigUint64(0);
      requireThat(time < 2n ** 63n, "a time that is not below 2^63");
      const message = utf8(`cosignature/v1\ntime ${time}\n${head.text}`);
      requireThat(await key.holds(line.signature.subarray(8), message), `not signed by ${key.name}`);
      if (!(found.get(key) >= time)) found.set(key, time);
    }
  }
  return [...found].map(([key, time]) => ({ witness: key.text, time: String(time) }));
}
