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
    pub(super) facts: String,
    /// The time, and whether the server is a standby.
    pub(super) state: &'static str,
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
        let left =
            "greatest(0, ceil(extract(epoch FROM expires_at - clock_timestamp()) * 1000))::bigint";
        let holder = format!("token, fence, {left}, owner");
        let later = "clock_timestamp() + $3::bigint * interval '1 millisecond'";
        let held = "name = $1 AND token = $2 AND expires_at > clock_timestamp()";
        let taken = "token IS NOT NULL AND expires_at > clock_timestamp()";
        // Of the state of the session nothing is used, and nothing is left in it.
        let settings = format!(
            "WITH settings AS (SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
             WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true), \
             set_config('lock_timeout', '{ROW_PATIENCE}', true))"
        );
        let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        let seen = format!("(SELECT token FROM {table} WHERE name = $1 AND {taken})");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} (name bytea PRIMARY KEY, token bytea, fence bigint NOT NULL, \
                 expires_at timestamptz, owner bytea)"
            ),
            facts: "SELECT current_setting('server_version'), pg_is_in_recovery(), \
                    (SELECT system_identifier::text FROM pg_control_system()), \
                    (SELECT oid::text FROM pg_database WHERE datname = current_database()), \
                    (SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass($1))"
                .to_owned(),
            state: "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, pg_is_in_recovery()",
            // What is seen beside a refusal is older than it: our own token is no answer.
            acquire: format!(
                "{settings}, taken AS (INSERT INTO {table} AS held (name, token, fence, expires_at, owner) \
                 SELECT $1, $2, {now}, {later}, $4 FROM settings \
                 ON CONFLICT (name) DO UPDATE SET token = excluded.token, owner = excluded.owner, \
                 fence = CASE WHEN held.token = excluded.token AND held.expires_at > clock_timestamp() THEN held.fence \
                 ELSE greatest(held.fence + 1, excluded.fence) END, \
                 expires_at = CASE WHEN held.token = excluded.token THEN greatest(held.expires_at, excluded.expires_at) \
                 ELSE excluded.expires_at END \
                 WHERE held.token IS NULL OR held.token = excluded.token OR held.expires_at <= clock_timestamp() \
                 RETURNING fence) \
                 SELECT true, fence, NULL::bytea FROM taken UNION ALL \
                 SELECT false, fence, token FROM {table} WHERE name = $1 AND token <> $2 \
                 AND NOT EXISTS (SELECT FROM taken)"
            ),
            extend: format!(
                "{settings}, done AS (UPDATE {table} SET expires_at = greatest(expires_at, {later}) FROM settings \
                 WHERE {held} RETURNING 1) SELECT count(*), {seen} FROM done"
            ),
            set_end: format!(
                "{settings}, done AS (UPDATE {table} SET expires_at = {later}, token = $4 FROM settings \
                 WHERE {held} RETURNING 1) SELECT count(*), {seen} FROM done"
            ),
            release: format!(
                "{settings}, done AS (UPDATE {table} SET token = NULL, expires_at = NULL, owner = NULL FROM settings \
                 WHERE {held} RETURNING 1) SELECT pg_notify($3, '') FROM done"
            ),
            fence: format!(
                "{settings}, done AS (UPDATE {table} SET fence = greatest(fence, $3) FROM settings \
                 WHERE {held} RETURNING fence) SELECT fence FROM done"
            ),
            look: format!("SELECT {holder} FROM {table} WHERE name = $1 AND {taken}"),
            list: format!(
                "SELECT {holder}, name FROM {table} WHERE {taken} ORDER BY name LIMIT {LIST_MAX}"
            ),
            table,
        }
    }
}

/// How long a statement waits for a row that another transaction has changed.
pub(super) const ROW_PATIENCE: &str = "500ms";
const LIST_MAX: usize = 10_000;
