// What the page does: takes files and a key, shows the progress and the answer. All text is set as text, never as markup.

import { contentOf } from "./archive.mjs";
import { Invalid, Newer, Unusable } from "./bytes.mjs";
import { keyOf, verify, verifyProof, whoHasSeen } from "./verify.mjs";
import { policyOf } from "./witnesses.mjs";

const $ = (id) => document.getElementById(id);
let files = [];
let kept;

function element(tag, content, ...children) {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  made.append(...children);
  return made;
}

function table(caption, heads, rows) {
  const head = element("tr", undefined, ...heads.map((name) => Object.assign(element("th", name), { scope: "col" })));
  const cell = (content, place) => {
    const made = element("td", content);
    made.dataset.head = heads[place]; // which a narrow screen shows beside it
    return made;
  };
  const body = rows.map((row) => element("tr", undefined, ...row.map(cell)));
  const made = element("table", undefined, element("caption", caption), element("thead", undefined, head), element("tbody", undefined, ...body));
  return Object.assign(element("div", undefined, made), { className: "wide", tabIndex: 0 });
}

function answer(kind, title, ...content) {
  const made = $("answer");
  made.className = kind;
  made.replaceChildren(Object.assign(element("h2", title), { tabIndex: -1 }), ...content);
  made.hidden = false;
  made.querySelector("h2").focus();
}

const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const promise = ({ kind, delta, ...numbers }) =>
  Object.entries(delta === undefined ? numbers : { ...numbers, delta }).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`).join(", ") + ` (${kind})`;

const paragraph = (text) => element("p", text);
const warning = (text) => Object.assign(paragraph(text), { className: "warning" });

/** The second that a number of seconds after 1970 is, or the number where no calendar has it. */
function moment(seconds) {
  const at = new Date(Number(seconds) * 1000);
  return Number.isNaN(at.getTime()) ? `${seconds} seconds after 1970` : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function whoSaw(found) {
  const parts = [paragraph(whoHasSeen(found))];
  if (found.seen.length) {
    parts.push(table("Witnesses that you trust, and when they saw it", ["Witness", "Time, by its clock"],
      found.seen.map(({ witness, time }) => [witness.split("+")[0], moment(time)])));
  } else if (found.witnesses_named.length) {
    parts.push(paragraph(`The record names witnesses (${found.witnesses_named.join(", ")}). Whether they saw it is not checked here: that needs a cosigned checkpoint, and the keys of those whom you trust, under 3.`));
  }
  return parts;
}

function missing({ index, seen, by, ended }) {
  const what = ended.length ? ` It ended ${count(ended.length, "scope", "scopes")} (${ended.join(", ")}): what the missing entries charged there is not known.` : "";
  return warning(`Entries are MISSING: entry ${index} says, on the word of ${by}, that a copy with ${count(seen, "entry", "entries")} had been seen.${what}`);
}

function showVerified(found) {
  const open = found.not_recomputed;
  const revoked = found.last_trusted;
  const ended = new Map(found.rollbacks.flatMap((one) => one.ended.map((scope) => [scope, one.index])));
  const state = ({ scope, closed }) => (ended.has(scope) ? `${scope} (ended by entry ${ended.get(scope)})` : closed ? `${scope} (closed)` : scope);
  const parts = [
    ...(revoked === undefined ? [] : [warning(`Its signing key was REVOKED: only entries up to ${revoked} are trusted. What was charged after them is counted as used; nothing that came back after them is.`)]),
    ...found.rollbacks.map(missing),
    paragraph(`${count(found.size, "entry", "entries")} of ${found.ledger}: every byte, signature and link, every transition and every sum was checked with the key that you gave.`),
    paragraph(open.length
      ? `Not everything could be recomputed here: ${count(open.length, "point needs", "points need")} the full program (dpledger verify). They are listed below.`
      : "Every price in it was recomputed here."),
    ...(found.elsewhere.length ? [paragraph(`${count(found.elsewhere.length, "charge is for a run", "charges are for runs")} elsewhere: priced and settled by the rules. That they ran so is the word of ${[...new Set(found.elsewhere.map((one) => one.by))].join(", ")}.`)] : []),
    ...whoSaw(found),
    paragraph("Nothing shows that everything ran through this ledger."),
    table("What is left of each budget", ["Scope", "Protects one", "Promise", "Counted in", "Used", "Limit", "Left"],
      found.scopes.flatMap((one) => one.accounts.map(({ account, spent, limit, left }, place) => [
        place ? "" : state(one), place ? "" : `${one.unit}, ${one.relation}`, place ? "" : promise(one.budget), account,
        spent === "inf" ? "no price for some" : spent, ...(one.filter === "either" && account === "pure" ? ["(mixed decides)", ""] : [limit, left]),
      ]))),
    table("What the record holds", ["Kind of entry", "How many"], Object.entries(found.kinds).map(([kind, many]) => [kind, String(many)])),
  ];
  if (found.open.length) {
    parts.push(table("Charges that are not settled", ["Reserved in entry", "Scope", "Started"],
      found.open.map((one) => [String(one.reserved), one.scope, one.started ? "yes" : "no"])));
  }
  const shown = open.slice(0, 1000);
  if (shown.length) parts.push(table(`Not recomputed here${shown.length < open.length ? `: the first ${shown.length} of ${open.length}` : ""}`,
    ["Entry", "What"], shown.map(({ index, what }) => [String(index), what])));
  parts.push(paragraph(`Fingerprint (root): ${found.root}`), paragraph(`Key: ${found.key}`));
  if (found.key_in_force !== found.key) parts.push(paragraph(`The key was rotated. In force now, and the one to keep for the next time: ${found.key_in_force}`));
  const verdict = revoked !== undefined ? "Verified, and the key was revoked" : found.rollbacks.length ? "Verified, and entries are missing" : open.length ? "Verified, but for what is listed" : "Verified";
  answer(verdict === "Verified" ? "good" : "open", verdict, ...parts);
}

function showProven({ ledger, index, size, root, key, entry, trusted }) {
  const members = Object.entries(entry).map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]);
  answer(trusted ? "good" : "open", trusted ? "Verified: one entry" : "One entry, and the key was revoked",
    ...(trusted ? [] : [warning("The signing key was REVOKED: whoever stole it may have signed this entry.")]),
    paragraph(`Entry ${index} of ${ledger}, as the ledger stood at ${count(size, "entry", "entries")}: signed, and at this place.`),
    paragraph("A proof shows this entry alone: neither that it followed the rules, nor what came before or after it. For that, verify a bundle."),
    table("What the entry says", ["Member", "Value"], members),
    paragraph(`Fingerprint (root): ${root}`), paragraph(`Key: ${key}`));
}

function showError(error) {
  if (error instanceof Newer) {
    answer("open", "Newer than this page", paragraph(error.message), paragraph("A later version wrote this. It is neither verified nor refuted: get a newer page."));
  } else if (error instanceof Invalid) {
    const where = error.index === undefined ? "It is no entry that is at fault, but a checkpoint, a key or a proof." : `Entry ${error.index} is the first at fault.`;
    answer("bad", "Does not verify", paragraph(where), paragraph(error.reason), paragraph("Do not rely on anything in this record."));
  } else if (error instanceof Unusable) answer("open", "Nothing was verified", paragraph(error.message));
  else throw error;
}

function progress(done, all) {
  const bar = $("progress");
  bar.max = Math.max(1, all);
  bar.value = done;
  $("done").textContent = `${done.toLocaleString("en")} of ${all.toLocaleString("en")} entries`;
}

async function check(event) {
  event.preventDefault();
  $("answer").hidden = true;
  $("check").disabled = true;
  $("working").hidden = false;
  progress(0, 1);
  try {
    if (!globalThis.crypto?.subtle) throw new Unusable("this browser has no WebCrypto here: open the page from a file, or over https");
    const own = keyOf($("key").value);
    const trusted = $("witnesses").value.trim();
    const witnesses = trusted ? policyOf(trusted) : undefined;
    const { proof, entries, head } = await contentOf(files);
    if (proof) {
      if (kept || witnesses) throw new Unusable("a proof is of one entry: a checkpoint that you kept, and witnesses, go with a bundle. Leave 3 empty");
      showProven(await verifyProof(proof, own));
      return;
    }
    let last = 0;
    const advance = (done, all) => {
      if (performance.now() - last < 50 && done < all) return undefined;
      last = performance.now();
      progress(done, all);
      return new Promise((resume) => setTimeout(resume)); // the page is drawn
    };
    showVerified(await verify(entries, head, own, { advance, since: kept, witnesses }));
  } catch (error) {
    showError(error);
  } finally {
    $("working").hidden = true;
    $("check").disabled = false;
  }
}

const bytesOf = async (file) => new Uint8Array(await file.arrayBuffer());

async function take(list) {
  files = await Promise.all(list.map(async (file) => [file.webkitRelativePath || file.name, await bytesOf(file)]));
  $("chosen").textContent = files.length ? files.map(([path]) => path).join(", ") : "nothing yet";
}

async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((done, failed) => entry.file(done, failed))];
  const reader = entry.createReader();
  const inside = await new Promise((done, failed) => reader.readEntries(done, failed));
  return (await Promise.all(inside.filter((one) => one.isFile).map(filesOf))).flat();
}

async function dropped(event) {
  event.preventDefault();
  $("drop").classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  await take((await Promise.all(entries.map(filesOf))).flat());
}

for (const input of ["files", "folder"]) $(input).addEventListener("change", (event) => take([...event.target.files]));
$("kept").addEventListener("change", async ({ target }) => {
  kept = target.files.length ? await bytesOf(target.files[0]) : undefined;
});
$("form").addEventListener("submit", check);
$("drop").addEventListener("drop", dropped);
$("drop").addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
