//! The statements: one for each operation, and the table.
//!
//! Invariants: what a statement promises it does alone, in the transaction that it is. A grant is on the disk, and on
//! synchronous standbys, before it is told. Fences of a name only rise.
//!
//! A fence is the server's time in microseconds, or one more than the last one of the name where that is more: so it rises as well where
//! the row was deleted long after the last release, or a standby without it has taken over. A sequence would not do:
//! its next value is drawn before the row of the lock is waited for, and another holder may get a larger one first.

/// All of them, for a table.
pub(super) struct Statements {
    /// Its name with its schema.
    pub(super) table: String,
    pub(super) create: String,
    /// Who the server is, how the table is kept, and whether it has the columns that [`create`](Self::create) gives it.
    pub(super) facts: String,
    /// The time, whether the server is a standby, and which rights on the table the role lacks.
    pub(super) state: String,
    pub(super) acquire: String,
    pub(super) extend: String,
    pub(super) set_end: String,
    pub(super) release: String,
    pub(super) fence: String,
    pub(super) look: String,
    pub(super) list: String,
}

impl Statements {
    /// For the table of this schema, whose name was checked: it has letters, digits and '_' alone.
    pub(super) fn of(schema: &str) -> Self {
        let table = format!("\"{schema}\".quorlock_locks");
        let left = format!(
            "greatest(0, pg_catalog.ceil(extract(epoch FROM (expires_at {MINUS} {NOW})) {TIMES} 1000))::bigint"
        );
        let holder = format!("token, fence, {left}, owner");
        let later = format!("{NOW} {PLUS} ($3::bigint {TIMES} interval '1 millisecond')");
        let held = format!("name {IS} $1 AND token {IS} $2 AND expires_at {AFTER} {NOW}");
        let taken = format!("token IS NOT NULL AND expires_at {AFTER} {NOW}");
        // Of the state of the session nothing is used, and nothing is left in it.
        let settings = format!(
            "WITH settings AS (SELECT pg_catalog.set_config('synchronous_commit', \
             CASE WHEN pg_catalog.current_setting('synchronous_commit') {IS} 'remote_apply' \
             THEN 'remote_apply' ELSE 'on' END, true), \
             pg_catalog.set_config('lock_timeout', '{ROW_PATIENCE}', true))"
        );
        let now = format!("(extract(epoch FROM {NOW}) {TIMES} 1000000)::bigint");
        let seen = format!("(SELECT token FROM {table} WHERE name {IS} $1 AND {taken})");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} (name bytea PRIMARY KEY, token bytea, fence bigint NOT NULL, \
                 expires_at timestamptz, owner bytea)"
            ),
            facts: facts(),
            state: format!(
                "SELECT {now}, pg_catalog.pg_is_in_recovery(), {}",
                lacking()
            ),
            // What is seen beside a refusal is older than it: our own token is no answer.
            acquire: format!(
                "{settings}, taken AS (INSERT INTO {table} AS held (name, token, fence, expires_at, owner) \
                 SELECT $1, $2, {now}, {later}, $4 FROM settings \
                 ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner, \
                 fence = CASE WHEN held.token {IS} excluded.token AND held.expires_at {AFTER} {NOW} THEN held.fence \
                 ELSE greatest(held.fence {PLUS} 1, excluded.fence) END, \
                 expires_at = CASE WHEN held.token {IS} excluded.token THEN greatest(held.expires_at, excluded.expires_at) \
                 ELSE excluded.expires_at END \
                 WHERE held.token IS NULL OR held.token {IS} excluded.token OR NOT held.expires_at {AFTER} {NOW} \
                 RETURNING fence) \
                 SELECT true, fence, NULL::pg_catalog.bytea FROM taken UNION ALL \
                 SELECT false, fence, token FROM {table} WHERE name {IS} $1 AND NOT token {IS} $2 \
                 AND NOT EXISTS (SELECT FROM taken)"
            ),
            extend: format!(
                "{settings}, done AS (UPDATE {table} SET expires_at = greatest(expires_at, {later}) FROM settings \
                 WHERE {held} RETURNING 1) SELECT pg_catalog.count(*), {seen} FROM done"
            ),
            set_end: format!(
                "{settings}, done AS (UPDATE {table} SET expires_at = {later}, token = $4 FROM settings \
                 WHERE {held} RETURNING 1) SELECT pg_catalog.count(*), {seen} FROM done"
            ),
            release: format!(
                "{settings}, done AS (UPDATE {table} SET token = NULL, expires_at = NULL, owner = NULL FROM settings \
                 WHERE {held} RETURNING 1) SELECT pg_catalog.pg_notify($3, '') FROM done"
            ),
            fence: format!(
                "{settings}, done AS (UPDATE {table} SET fence = greatest(fence, $3) FROM settings \
                 WHERE {held} RETURNING fence) SELECT fence FROM done"
            ),
            look: format!("SELECT {holder} FROM {table} WHERE name {IS} $1 AND {taken}"),
            list: format!(
                "SELECT {holder}, name FROM {table} WHERE {taken} AND name {AFTER} $1 ORDER BY name LIMIT {PAGE}"
            ),
            table,
        }
    }
}

fn facts() -> String {
    let columns = [
        ("name", "bytea"),
        ("token", "bytea"),
        ("fence", "int8"),
        ("expires_at", "timestamptz"),
        ("owner", "bytea"),
    ];
    let is_column = |(name, kind)| {
        format!(
            "attname {IS} '{name}' AND atttypid {IS} 'pg_catalog.{kind}'::pg_catalog.regtype::pg_catalog.oid"
        )
    };
    let is_column = columns.map(is_column).join(" OR ");
    format!(
        "SELECT pg_catalog.current_setting('server_version'), pg_catalog.pg_is_in_recovery(), \
         (SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()), \
         (SELECT oid::pg_catalog.text FROM pg_catalog.pg_database WHERE datname {IS} pg_catalog.current_database()), \
         (SELECT relpersistence::pg_catalog.text FROM pg_catalog.pg_class WHERE oid {IS} {TABLE}), \
         (SELECT relkind {IS} 'r' AND (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute \
         WHERE attrelid {IS} {TABLE} AND ({is_column}) AND (attnotnull OR NOT attname {IS} 'fence')) {IS} 5 \
         FROM pg_catalog.pg_class WHERE oid {IS} {TABLE})"
    )
}

/// The rights that the role lacks, one behind the other. One that it has on the columns alone counts where it has it on each that a
/// statement needs: no name is changed.
fn lacking() -> String {
    let lacking = [
        ("SELECT", "name"),
        ("INSERT", "name"),
        ("UPDATE", "token"),
    ]
    .map(|(right, first)| {
        let columns = [first, "token", "fence", "expires_at", "owner"];
        let is_needed = columns.map(|column| format!("attname {IS} '{column}'"));
        let is_needed = is_needed.join(" OR ");
        format!(
            "CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid {IS} pg_class.oid AND ({is_needed}) \
             AND NOT pg_catalog.has_column_privilege(attrelid, attnum, '{right}')) THEN '{right}' END"
        )
    });
    let lacking = lacking.join(", ");
    format!(
        "(SELECT pg_catalog.concat_ws(', ', {lacking}) FROM pg_catalog.pg_class WHERE oid {IS} {TABLE})"
    )
}

// Where they belong to the server, and not to the first schema of the session that has one that fits better: who may make
// operators there would decide who holds a lock (CVE-2018-1058). They bind as strongly as each other.
const IS: &str = "OPERATOR(pg_catalog.=)";
const AFTER: &str = "OPERATOR(pg_catalog.>)";
const PLUS: &str = "OPERATOR(pg_catalog.+)";
const MINUS: &str = "OPERATOR(pg_catalog.-)";
const TIMES: &str = "OPERATOR(pg_catalog.*)";
const NOW: &str = "pg_catalog.clock_timestamp()";
const TABLE: &str = "pg_catalog.to_regclass($1)::pg_catalog.oid";

/// How long a statement waits for a row that another transaction has changed.
pub(super) const ROW_PATIENCE: &str = "500ms";
/// How many locks are listed at once.
pub(super) const PAGE: usize = 1000;
