"""Vectors of keys, envelopes, checkpoints and proofs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import merkle_oracle
from golden import Vector, bad, good
from naive_signing import (
    NAME,
    ORDER,
    OTHER_NAME,
    OTHER_SEED,
    PRIME,
    SEED,
    SMALL_ORDER,
    TYPE,
    b64,
    envelope,
    head,
    key_id,
    note,
    pae,
    public,
    respelled,
    sign,
    signature_line,
    vkey,
)

PREVIOUS = merkle_oracle.leaf(b"the leaf at index 0")
PAYLOAD = json.dumps(
    {
        "index": 1,
        "kind": "heartbeat",
        "ledger": NAME,
        "previous": PREVIOUS.hex(),
        "time": "2026-11-21T20:15:00Z",
        "version": 1,
    },
    separators=(",", ":"),
)
LEAVES = [b"", b"a", b"b", b"\x00", bytes(range(64)), b"leaf", b"x" * 100]


def key_vectors() -> dict[str, Any]:
    key = public(SEED)
    other_form = "expected <name>+<8 hexadecimal digits>+<base64>"
    text = vkey(NAME, key)
    return {
        "about": "Ed25519 keys: the seed (hex), its name, and verifying keys in text form",
        "name": NAME,
        "seed": SEED.hex(),
        "public": key.hex(),
        "key_id": key_id(NAME, key).hex(),
        "vectors": [
            good("the key of the seed", text),
            good(
                "a key that C2SP's own example uses",
                "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
            ),
            bad("nothing", "", other_form),
            bad("no name", text[len(NAME) :], other_form),
            bad("no key", "+".join(text.split("+")[:2]), other_form),
            bad(
                "capital letters in the id",
                text.replace(key_id(NAME, key).hex(), key_id(NAME, key).hex().upper()),
                other_form,
            ),
            bad("the id of another name", text.replace(NAME, OTHER_NAME), "the key id"),
            bad(
                "the id of another key",
                text.replace(b64(b"\x01" + key), b64(b"\x01" + public(OTHER_SEED))),
                "the key id",
            ),
            bad("a name with a space", vkey("a b", key), "visible ASCII"),
            bad("a name beyond ASCII", vkey("caf\u00e9", key), "visible ASCII"),
            bad("another signature type", f"{NAME}+{'0' * 8}+{b64(bytes([4]) + key)}", "signature type 0x04"),
            bad("31 bytes", f"{NAME}+{'0' * 8}+{b64(bytes([1]) + key[:31])}", "32 bytes"),
            bad("33 bytes", f"{NAME}+{'0' * 8}+{b64(bytes([1]) + key + bytes(1))}", "34 bytes"),
            bad("base64 without its padding", vkey("name", key)[:-1], "base64"),
            bad("a line feed at the end", text + "\n", "base64"),
            bad("off the curve", vkey(NAME, (2).to_bytes(32, "little")), "no point of the curve"),
            bad("a point's y written as y + p", vkey(NAME, (PRIME + 3).to_bytes(32, "little")), "non-canonical"),
            bad("zero written as p", vkey(NAME, PRIME.to_bytes(32, "little")), "non-canonical"),
            bad("the greatest encoding", vkey(NAME, b"\xff" * 32), "non-canonical"),
            *(bad(f"small order: {desc}", vkey(NAME, point), "small order") for desc, point in SMALL_ORDER.items()),
        ],
    }


def envelope_vectors() -> dict[str, Any]:
    payload = PAYLOAD.encode()
    text = envelope(payload)
    key = key_id(NAME, public(SEED)).hex()
    signature = sign(SEED, pae(payload))
    sig = b64(signature)
    wide = json.dumps(json.loads(text))
    turned = json.dumps(dict(reversed(json.loads(text).items())), separators=(",", ":"))
    twice = text.replace("}]}", f'}},{{"keyid":"{key}","sig":"{sig}"}}]}}')
    torn = signature[:63] + bytes([signature[63] ^ 1])
    # the other scalar that stands for the same signature: s + L
    malleable = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    room = 65_535 - len(envelope(b""))
    longest = b"x" * (room // 4 * 3)
    unknown, not_held = "signed under the key id", "not made by the key"
    return {
        "about": "envelopes, each one leaf; signed by the key of keys.json",
        "key": vkey(NAME, public(SEED)),
        "payload": PAYLOAD,
        "vectors": [
            good("an entry", text, leaf_hash=merkle_oracle.leaf(text.encode()).hex()),
            good(
                "the longest payload", envelope(longest), leaf_hash=merkle_oracle.leaf(envelope(longest).encode()).hex()
            ),
            bad("nothing", "", "at byte 0"),
            bad("one byte too long", envelope(longest + b"x"), "at most 65535"),
            bad("a line feed at the end", text + "\n", "1 bytes more"),
            bad("white space", wide, "at byte 0"),
            bad("members in another order", turned, "at byte 0"),
            bad("another member", text[:-1] + ',"x":1}', "at byte"),
            bad("no signature", text[: text.index("[") + 1] + "]}", "at byte"),
            bad("two signatures", twice, "at byte"),
            bad("a member of the signature missing", text.replace(f'"keyid":"{key}",', ""), "at byte"),
            bad("an escape in a member", text.replace("payload", "p\\u0061yload", 1), "at byte 0"),
            bad("a byte outside ASCII", text.replace("payload", "p\u00e4yload", 1), "not ASCII at byte 3"),
            bad("cut off", text[:40], "ends inside the text that begins at byte 12"),
            bad(
                "another type, signed as such", envelope(payload, payload_type=TYPE.replace("v1", "v2")), "payloadType"
            ),
            bad("another type, not signed", text.replace("v1+json", "v2+json"), "payloadType"),
            bad("a slash of the type escaped", text.replace("application/", "application\\/"), "payloadType"),
            bad("payload in url-safe base64", envelope(b"\xff\xff\xff", payload="____"), "base64"),
            bad("payload without its padding", envelope(b"a", payload="YQ"), "base64"),
            bad("payload with spare bits", envelope(b"A", payload="QR=="), "re-encodes to itself"),
            bad("signature with spare bits", envelope(payload, sig=respelled(sig)), "re-encodes to itself"),
            bad("signature cut to 63 bytes", envelope(payload, sig=b64(signature[:63])), "signature of 64 bytes"),
            bad("no signature bytes", envelope(payload, sig=""), "signature of 64 bytes"),
            bad("capital letters in the key id", envelope(payload, keyid="ABCDEF01"), "8 hexadecimal digits"),
            bad("key id of 7 digits", envelope(payload, keyid="1234567"), "8 hexadecimal digits"),
            bad("another key", envelope(payload, seed=OTHER_SEED), unknown),
            bad("another key under this key's id", envelope(payload, seed=OTHER_SEED, keyid=key), not_held),
            bad("another payload", envelope(payload, payload=b64(payload.replace(b"0", b"1", 1))), not_held),
            bad("a bit of the signature", envelope(payload, sig=b64(torn)), not_held),
            bad("the payload signed without its type", envelope(payload, sig=b64(sign(SEED, payload))), not_held),
            bad("a scalar beyond the group order", envelope(payload, sig=b64(malleable)), not_held),
            bad("zeros for a signature", envelope(payload, sig=b64(bytes(64))), "small order"),
        ],
    }


def checkpoint_vectors() -> dict[str, Any]:
    root = merkle_oracle.head(LEAVES)
    text = head(len(LEAVES), root)
    pair = hashlib.sha256(b"\x01" + PREVIOUS + merkle_oracle.leaf(envelope(PAYLOAD.encode()).encode())).digest()
    own = signature_line(text)
    witness = signature_line(text, name="witness.example", seed=OTHER_SEED)
    number = "line 2: expected a size"
    unsigned = "expected one signature of the key"
    b64_root = b64(root)
    shown = {"size": len(LEAVES), "root": root.hex()}
    forged = own.replace(
        b64(key_id(NAME, public(SEED)) + sign(SEED, text.encode())),
        b64(key_id(NAME, public(SEED)) + sign(OTHER_SEED, text.encode())),
    )
    return {
        "about": "checkpoints of the ledger that the key is named after",
        "key": vkey(NAME, public(SEED)),
        "vectors": [
            good(
                "of two leaves, the second the first entry of envelope.json",
                note(head(2, pair)),
                size=2,
                root=pair.hex(),
            ),
            good("a head", note(text), **shown),
            good("with a witness after it", note(text, own, witness), **shown),
            good("with a witness before it", note(text, witness, own), **shown),
            good("with another key of the same name", note(text, own, signature_line(text, seed=OTHER_SEED)), **shown),
            good("with 16 witnesses", note(text, own, *[witness] * 16), **shown),
            good("of the empty tree", note(head(0, merkle_oracle.head([]))), size=0, root=merkle_oracle.head([]).hex()),
            good("the greatest size", note(head(2**53 - 1, root)), size=2**53 - 1, root=root.hex()),
            bad("nothing", "", "expected a text, an empty line"),
            bad("no signature", text + "\n", "expected a text, an empty line"),
            bad("no empty line", text + own, "expected a text, an empty line"),
            bad("no line feed at the end", note(text)[:-1], "expected a text, an empty line"),
            bad("an empty line at the end", note(text) + "\n", "expected a text, an empty line"),
            bad("line ends of another system", note(text).replace("\n", "\r\n"), "a control character"),
            bad("a tab", note(text).replace("7\n", "7\t\n", 1), "a control character"),
            bad("not UTF-8", note(text).encode() + b"\xff", "not UTF-8"),
            bad("2 lines", note(f"{NAME}\n7\n"), "expected 3 lines"),
            bad("an extension line", note(head(7, root, extra="more\n")), "expected 3 lines"),
            bad("an empty line in the text", note(head(7, root, extra="\n")), "expected 3 lines"),
            *(
                bad(f"the size {size!r}", note(head(size, root)), number)
                for size in ["", "07", "+7", "-7", " 7", "7 ", "7.0", "1_0", "0x7", "\uff17", "7e0", "1" * 17]
            ),
            bad("a size of 2^53", note(head(2**53, root)), "below 2^53"),
            bad("a root of 31 bytes", note(head(7, root[:31])), "root: expected"),
            bad("a root with spare bits", note(f"{NAME}\n7\n{respelled(b64_root)}\n"), "re-encodes to itself"),
            bad("a root in hexadecimal", note(f"{NAME}\n7\n{root.hex()}\n"), "root"),
            bad("another root for the empty tree", note(head(0, root)), "empty tree"),
            bad("an origin that is no ledger id", note(head(7, root, origin="example.org/log")), "a ledger id"),
            bad("another ledger", note(head(7, root, origin=OTHER_NAME)), "of another ledger"),
            bad("another size than was signed", note(head(8, root), own), "not made by the key"),
            bad("another root than was signed", note(head(7, bytes(32)), own), "not made by the key"),
            bad("a forged signature", note(text, forged), "not made by the key"),
            bad("signed by a witness only", note(text, witness), unsigned),
            bad("signed by another key of the same name", note(text, signature_line(text, seed=OTHER_SEED)), unsigned),
            bad("signed under another name", note(text, signature_line(text, name=OTHER_NAME)), unsigned),
            bad("signed twice", note(text, own, own), unsigned),
            bad("a good and a forged signature", note(text, own, forged), unsigned),
            bad("a hyphen for the dash", note(text, own.replace("\u2014", "-")), "line 5: expected an em dash"),
            bad("no space after the dash", note(text, own.replace("\u2014 ", "\u2014")), "line 5: expected an em dash"),
            bad("no key name", note(text, f"\u2014  {own.split(' ')[2]}"), "line 5: expected a key name"),
            bad("a key name with a plus sign", note(text, own, "\u2014 a+b AAAAAAA=\n"), "line 6: expected a key name"),
            bad(
                "a key name with an odd space",
                note(text, own, "\u2014 a\u00a0b AAAAAAA=\n"),
                "line 6: expected a key name",
            ),
            bad("two spaces", note(text, own.replace(f"{NAME} ", f"{NAME}  ")), "base64"),
            bad("a space at the end", note(text, own.replace("\n", " \n")), "base64"),
            bad("a witness line with spare bits", note(text, own, "\u2014 w AAAAAAB=\n"), "line 6: signature"),
            bad(
                "a witness line without a signature",
                note(text, own, "\u2014 w AAAAAA==\n"),
                "line 6: expected a key id",
            ),
            bad("65 signature lines", note(text, own, *[witness] * 64), "at most 64"),
        ],
    }


def merkle_vectors() -> dict[str, Any]:
    whole = len(LEAVES)
    root = merkle_oracle.head(LEAVES)
    path, proof = merkle_oracle.path(2, LEAVES), merkle_oracle.proof(3, LEAVES)

    def inclusion(desc: str, hashes: list[bytes], *, index: int = 2, size: int = whole, **more: str) -> Vector:
        leaf = merkle_oracle.leaf(LEAVES[2])
        shown = {"index": index, "size": size, "leaf_hash": leaf.hex(), "root": root.hex(), **more}
        return {"desc": desc, **shown, "proof": [value.hex() for value in hashes]}

    def consistency(desc: str, hashes: list[bytes], *, old_size: int = 3, new_size: int = whole, **more: str) -> Vector:
        old_root = merkle_oracle.head(LEAVES[: max(old_size, 0)])
        shown = {"old_size": old_size, "new_size": new_size, "old_root": old_root.hex(), "new_root": root.hex(), **more}
        return {"desc": desc, **shown, "proof": [value.hex() for value in hashes]}

    too_many, too_few, other = "more hashes", "fewer hashes", "another root"
    return {
        "about": "the tree over seven leaves (hex): its roots, its inclusion proofs and consistency proofs",
        "leaves": [leaf.hex() for leaf in LEAVES],
        "roots": [merkle_oracle.head(LEAVES[:size]).hex() for size in range(whole + 1)],
        "inclusion": [
            *(
                inclusion(
                    f"leaf {index}",
                    merkle_oracle.path(index, LEAVES),
                    index=index,
                    leaf_hash=merkle_oracle.leaf(leaf).hex(),
                )
                for index, leaf in enumerate(LEAVES)
            ),
            inclusion("nothing", [], want_error=too_few),
            inclusion("the last hash missing", path[:-1], want_error=too_few),
            inclusion("a hash more", [*path, root], want_error=too_many),
            inclusion("two hashes exchanged", [path[1], path[0], *path[2:]], want_error=other),
            inclusion("a hash of 31 bytes", [path[0][:31], *path[1:]], want_error="32 bytes"),
            inclusion("another index", path, index=3, want_error=other),
            inclusion("an index beyond the tree", path, index=whole, want_error="does not lie in"),
            inclusion("a negative index", path, index=-1, want_error="does not lie in"),
            inclusion("the empty tree", [], index=0, size=0, want_error="does not lie in"),
            inclusion("a size of 2^53", path, size=2**53, want_error="does not lie in"),
            inclusion("another leaf", path, leaf_hash=merkle_oracle.leaf(b"z").hex(), want_error=other),
            inclusion(
                "a node passed off as a leaf",
                path[1:],
                leaf_hash=merkle_oracle.head(LEAVES[2:4]).hex(),
                want_error=too_few,
            ),
        ],
        "consistency": [
            *(
                consistency(f"from {size}", merkle_oracle.proof(size, LEAVES), old_size=size)
                for size in range(1, whole)
            ),
            consistency("from the empty tree", [], old_size=0),
            consistency("from the same size", [], old_size=whole),
            consistency("nothing", [], want_error="missing"),
            consistency("the last hash missing", proof[:-1], want_error=too_few),
            consistency("a hash more", [*proof, root], want_error=too_many),
            consistency("two hashes exchanged", [proof[1], proof[0], *proof[2:]], want_error="another older root"),
            consistency("a hash of 33 bytes", [proof[0] + b"x", *proof[1:]], want_error="32 bytes"),
            consistency("another older root", proof, old_root=bytes(32).hex(), want_error="another older root"),
            consistency("another newer root", proof, new_root=bytes(32).hex(), want_error="another newer root"),
            consistency(
                "the older tree is longer", proof, old_size=whole, new_size=3, want_error="does not begin with"
            ),
            consistency("a negative size", proof, old_size=-1, want_error="does not begin with"),
            consistency("hashes where none is needed", [root], old_size=whole, want_error="none is needed"),
            consistency(
                "two roots of one size", [], old_size=whole, old_root=bytes(32).hex(), want_error="older root is not"
            ),
            consistency(
                "another root of the empty tree",
                [],
                old_size=0,
                old_root=bytes(32).hex(),
                want_error="older root is not",
            ),
        ],
    }
