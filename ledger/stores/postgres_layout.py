"""What a ledger's tables in PostgreSQL are, and what they must be before anything in them is believed: tables of their
own, with the columns that `create` makes, that a crash leaves whole, and with every row for whoever looks.

Whoever administers the server can change them at any moment, and is not kept from it: this is for what is set by
mistake, where everything would seem to work. A table without a log is empty after a crash; one that is temporary ends
with the connection; of two schemas in a search path each may have a part; where row level security is on, a role that
sees no charge runs it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpledger.errors import ForeignLedger, StoreFailure

if TYPE_CHECKING:
    import psycopg

__all__ = ["CREATE", "LAYOUT", "require_ours"]

LAYOUT = 2

CREATE = """
CREATE TABLE dpledger_leaves (i bigint PRIMARY KEY, leaf bytea NOT NULL);
CREATE TABLE dpledger_charges (
    charge text COLLATE "C" PRIMARY KEY, scope text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL, status text NOT NULL CHECK (status IN ('open', 'committed', 'aborted')),
    ended bigint, UNIQUE (scope, key)
);
CREATE TABLE dpledger_refusals (
    scope text COLLATE "C", request text COLLATE "C", PRIMARY KEY (scope, request)
);
CREATE TABLE dpledger_kept (charge text COLLATE "C" PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE dpledger_saved (one int PRIMARY KEY CHECK (one = 1), bytes bytea NOT NULL);
CREATE TABLE dpledger_head (
    one int PRIMARY KEY CHECK (one = 1), layout int NOT NULL, size bigint NOT NULL, checkpoint bytea
);
INSERT INTO dpledger_head VALUES (1, 2, 0, NULL);
"""
COLUMNS = {
    "dpledger_leaves": ["i int8", "leaf bytea"],
    "dpledger_charges": ["charge text", "scope text", "key text", "request text", "status text", "ended int8"],
    "dpledger_refusals": ["scope text", "request text"],
    "dpledger_kept": ["charge text", "value bytea"],
    "dpledger_saved": ["one int4", "bytes bytea"],
    "dpledger_head": ["one int4", "layout int4", "size int8", "checkpoint bytea"],
}

_FOUND = """
SELECT name, relnamespace::text, relkind::text, relpersistence::text, pg_catalog.row_security_active(tables.oid), ARRAY(
    SELECT pg_catalog.concat_ws(' ', attname, typname)
    FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_type AS types ON types.oid = atttypid
    WHERE attrelid = tables.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum
) FROM pg_catalog.unnest(%s::text[]) AS name
LEFT JOIN pg_catalog.pg_class AS tables ON tables.oid = pg_catalog.to_regclass(name)
"""
ORDINARY, PERMANENT = "r", "p"


def require_ours(connection: psycopg.Connection[Any], name: str) -> None:
    """Raises unless each table is one that `CREATE` made: ForeignLedger where it is another or not there, StoreFailure
    where a server that can be set right would lose or hide rows. `name`: the store's, for messages."""
    rows = connection.execute(_FOUND, ([*COLUMNS],)).fetchall()
    for table, schema, kind, persistence, hides_rows, columns in rows:
        if kind is None:
            raise ForeignLedger(f"{name} has no table {table} beside the others: restore the database from a backup")
        if schema != rows[0][1]:
            raise ForeignLedger(
                f"{name}: {rows[0][0]} and {table} lie in two schemas: give the address a search_path of "
                "one schema, that of the ledger"
            )
        if kind != ORDINARY or columns != COLUMNS[table]:
            raise ForeignLedger(
                f"{name} is not a dpledger ledger: {table} is not a table with the columns that dpledger gives it, "
                f"{', '.join(COLUMNS[table])}"
            )
        if persistence != PERMANENT:
            raise StoreFailure(
                f"{name}: what is acknowledged may be lost, and nothing was written. The table {table} is unlogged "
                f"(ALTER TABLE {table} SET LOGGED) or temporary (give the address another search_path)"
            )
        if hides_rows:
            raise StoreFailure(
                f"{name}: row level security may hide rows of {table} from this role; nothing was written. Rights to a "
                f"ledger are given by GRANT alone (docs/team.md): ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"
            )
