// What the page does: takes files and a key, shows the progress and the answer. All text is set as text, never as markup.

import { bundleOf } from "./archive.mjs";
import { Invalid, Newer, Unusable } from "./bytes.mjs";
import { keyOf, verify } from "./verify.mjs";

const $ = (id) => document.getElementById(id);
let files = [];

function element(tag, content, ...children) {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  made.append(...children);
  return made;
}

function table(caption, heads, rows) {
  const head = element("tr", undefined, ...heads.map((name) => Object.assign(element("th", name), { scope: "col" })));
  const body = rows.map((row) => element("tr", undefined, ...row.map((cell) => element("td", cell))));
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
const promise = ({ kind, ...numbers }) =>
  Object.entries(numbers).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`).join(", ") + ` (${kind})`;

function showVerified(found) {
  const open = found.not_recomputed;
  const revoked = found.last_trusted;
  const parts = [
    ...(revoked === undefined ? [] : [element("p", `Its signing key was REVOKED: only entries up to ${revoked} are trusted. What was charged after them is counted as used; nothing that came back after them is.`)]),
    element("p", `${count(found.size, "entry", "entries")} of ${found.ledger}: every byte, signature and link, every transition and every sum was checked with the key that you gave.`),
    element("p", open.length
      ? `Not everything could be recomputed here: ${count(open.length, "point needs", "points need")} the full program (dpledger verify). They are listed below.`
      : "Every price in it was recomputed here."),
    element("p", "This does not show that the end was not cut off, unless you compare its fingerprint with one that you kept; nor that everything ran through this ledger."),
    table("What is left of each budget", ["Scope", "Protects one", "Promise", "Counted in", "Used", "Limit", "Left"],
      found.scopes.flatMap((one) => one.accounts.map((account, place) => [
        place ? "" : `${one.scope}${one.closed ? " (closed)" : ""}`, place ? "" : `${one.unit}, ${one.relation}`, place ? "" : promise(one.budget),
        account.account, account.spent === "inf" ? "no price for some" : account.spent, account.limit, account.left,
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
  parts.push(element("p", `Fingerprint (root): ${found.root}`), element("p", `Key: ${found.key}${found.key_in_force === found.key ? "" : `; now in force: ${found.key_in_force}`}`));
  answer(revoked === undefined ? "good" : "open", revoked !== undefined ? "Verified, and the key was revoked" : open.length ? "Verified, but for what is listed" : "Verified", ...parts);
}

function showError(error) {
  if (error instanceof Newer) {
    answer("open", "Newer than this page", element("p", error.message), element("p", "A later version wrote this. It is neither verified nor refuted: get a newer page."));
  } else if (error instanceof Invalid) {
    const where = error.index === undefined ? "The signed head is at fault." : `Entry ${error.index} is the first at fault.`;
    answer("bad", "Does not verify", element("p", where), element("p", error.reason), element("p", "Do not rely on anything in this record."));
  } else if (error instanceof Unusable) answer("open", "Nothing was verified", element("p", error.message));
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
    const { entries, head } = await bundleOf(files);
    let last = 0;
    const advance = (done, all) => {
      if (performance.now() - last < 50 && done < all) return undefined;
      last = performance.now();
      progress(done, all);
      return new Promise((resume) => setTimeout(resume)); // the page is drawn
    };
    showVerified(await verify(entries, head, own, { advance }));
  } catch (error) {
    showError(error);
  } finally {
    $("working").hidden = true;
    $("check").disabled = false;
  }
}

async function take(list) {
  files = await Promise.all(list.map(async (file) => [file.webkitRelativePath || file.name, new Uint8Array(await file.arrayBuffer())]));
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
$("form").addEventListener("submit", check);
$("drop").addEventListener("drop", dropped);
$("drop").addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
$("drop").addEventListener("dragleave", () => $("drop").classList.remove("over"));
