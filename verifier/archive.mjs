// What somebody drops: a proof of one entry; or the two files of a bundle, a zip, a tar or a tar.gz of their folder.

import { Unusable } from "./bytes.mjs";
import { isProof } from "./signed.mjs";

const NAMES = ["entries.jsonl", "checkpoint"];
const NO_BUNDLE = "expected a bundle (the files entries.jsonl and checkpoint, their folder, or a zip or tar of it), or a proof of one entry";
const LATIN = new TextDecoder("latin1");

const leafName = (path) => path.split("/").pop();

const MOST_UNPACKED = 2 ** 30; // bytes of one file, or of a tar

async function inflated(data, format) {
  const parts = [];
  let size = 0;
  try {
    const reader = new Blob([data]).stream().pipeThrough(new DecompressionStream(format)).getReader();
    for (let read = await reader.read(); !read.done && size <= MOST_UNPACKED; read = await reader.read()) {
      size += read.value.length;
      parts.push(read.value);
    }
    if (size > MOST_UNPACKED) await reader.cancel();
  } catch {
    throw new Unusable("an archive that cannot be unpacked");
  }
  if (size > MOST_UNPACKED) throw new Unusable("an archive that unpacks to more than a gigabyte: drop its two files");
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The files of a zip, by its central directory: stored or deflated. */
async function unzipped(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let end = data.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) throw new Unusable("a zip without its directory");
  const files = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [method, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true)];
    const [name, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const from = view.getUint32(at + 42, true);
    const path = LATIN.decode(data.subarray(at + 46, at + 46 + name));
    at += 46 + name + extra + comment;
    if (!NAMES.includes(leafName(path))) continue;
    if (method !== 0 && method !== 8) throw new Unusable("a zip of another method than deflate");
    const start = from + 30 + view.getUint16(from + 26, true) + view.getUint16(from + 28, true);
    const content = data.subarray(start, start + size);
    files.push([path, method === 8 ? await inflated(content, "deflate-raw") : content]);
  }
  return files;
}

/** The files of a tar. */
function untarred(data) {
  const files = [];
  for (let at = 0; at + 512 <= data.length && data[at] !== 0; ) {
    const path = LATIN.decode(data.subarray(at, at + 100)).replace(/\0.*$/s, "");
    const written = /^ *([0-7]{1,11})[\0 ]*$/.exec(LATIN.decode(data.subarray(at + 124, at + 136)));
    if (!written) throw new Unusable("a tar whose sizes cannot be read");
    const size = parseInt(written[1], 8);
    files.push([path, data.subarray(at + 512, at + 512 + size)]);
    at += 512 + 512 * Math.ceil(size / 512);
  }
  return files;
}

async function unpacked(path, data) {
  try {
    if (data[0] === 0x50 && data[1] === 0x4b) return await unzipped(data);
    if (data[0] === 0x1f && data[1] === 0x8b) return untarred(await inflated(data, "gzip"));
    if (LATIN.decode(data.subarray(257, 262)) === "ustar") return untarred(data);
  } catch (error) {
    if (error instanceof RangeError) throw new Unusable("an archive that was cut off");
    throw error;
  }
  return [[path, data]];
}

/** What is in files, given as [path, bytes]: the bytes of a `proof`; else of `entries` and `head`, each there once. */
export async function contentOf(given) {
  if (given.length === 1 && isProof(given[0][1])) return { proof: given[0][1] };
  const files = [];
  for (const [path, data] of given) files.push(...(NAMES.includes(leafName(path)) ? [[path, data]] : await unpacked(path, data)));
  const [entries, head] = NAMES.map((name) => files.filter(([path]) => leafName(path) === name));
  if (entries.length > 1 || head.length > 1) throw new Unusable("more than one bundle: drop one at a time");
  if (!entries.length || !head.length) throw new Unusable(NO_BUNDLE);
  return { entries: entries[0][1], head: head[0][1] };
}
