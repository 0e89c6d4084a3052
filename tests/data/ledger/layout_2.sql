PRAGMA application_id = 1685089383;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;
CREATE TABLE leaves (i INTEGER PRIMARY KEY, leaf BLOB NOT NULL) STRICT;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), checkpoint BLOB NOT NULL) STRICT;
CREATE TABLE charges (
    charge TEXT PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'committed', 'aborted')), ended INTEGER,
    UNIQUE (scope, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE refusals (
    scope TEXT NOT NULL, request TEXT NOT NULL, PRIMARY KEY (scope, request)
) STRICT, WITHOUT ROWID;
CREATE TABLE kept (charge TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE saved (part INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
