//! RESP3 in scripts: what commands are to them, what their results are to clients, and that neither
//! outlives a script.

use quorlock_engine::Reply;

use super::{Node, eval, run};

fn result(node: &mut Node, body: &str) -> Reply {
    eval(node, body, &[], &[])
}

#[test]
fn what_a_script_returns_has_the_type_that_it_says() {
    let mut node = Node::default();
    let text = |text: &str| Reply::bulk(text);
    for (value, reply) in [
        ("{double=1.5}", Reply::Double(1.5)),
        ("{double=3}", Reply::Double(3.0)),
        (
            "{big_number='12\\r\\n34567890123456789012'}",
            Reply::BigNumber(b"12  34567890123456789012".to_vec()),
        ),
        (
            "{verbatim_string={format='txt',string='x'}}",
            Reply::Verbatim(*b"txt", b"x".to_vec()),
        ),
        (
            "{verbatim_string={format='markdown',string='x'}}",
            Reply::Verbatim(*b"mar", b"x".to_vec()),
        ),
        (
            "{verbatim_string={format='',string='x'}, map={}}",
            Reply::Verbatim(*b"   ", b"x".to_vec()),
        ),
        (
            "{map={a=1}}",
            Reply::Map(vec![(text("a"), Reply::Integer(1))]),
        ),
        ("{set={a=true}}", Reply::Set(vec![text("a")])),
        // What is no such value is a list.
        ("{double='1.5'}", Reply::Array(vec![])),
        ("{big_number=5}", Reply::Array(vec![])),
        ("{verbatim_string={string='x'}}", Reply::Array(vec![])),
    ] {
        for dialect in ["", "redis.setresp(3) "] {
            let body = format!("{dialect}return {value}");
            assert_eq!(result(&mut node, &body), reply, "{body}");
        }
    }
}

#[test]
fn a_dialect_ends_with_its_script() {
    let mut node = Node::default();
    node.run("HSET h f v");
    let shown = "return {type(redis.call('get','none')), redis.call('hgetall','h').map ~= nil}";
    for _ in 0..2 {
        assert_eq!(run(&mut node, shown), r#"["boolean", nil]"#);
        let chosen = format!("redis.setresp(3) {shown}");
        assert_eq!(run(&mut node, &chosen), r#"["nil", Boolean(true)]"#);
        assert_eq!(run(&mut node, "return true"), "1");
        assert_eq!(
            run(&mut node, "redis.setresp(3) return true"),
            "Boolean(true)"
        );
        assert!(run(&mut node, "redis.setresp(3) error('x')").starts_with("-ERR user_script:1: x"));
    }
}

#[test]
fn errors_are_tables_to_those_that_ask_for_them() {
    let mut node = Node::default();
    let fields = "local function fields(t) local list = {} for k, v in pairs(t) do \
                  list[#list + 1] = k .. '=' .. tostring(v) end table.sort(list) return list end ";
    let of_command =
        r#"["err=ERR Unknown Redis command called from script", "ignore_error_stats_update=true"]"#;
    for (body, reply) in [
        ("return fields(redis.pcall('nosuch'))", of_command),
        (
            "return select(2, xpcall(function() redis.call('nosuch') end, fields))",
            of_command,
        ),
        (
            "return select(2, xpcall(redis.sha1hex, fields))",
            r#"["err=ERR wrong number of arguments"]"#,
        ),
        (
            "return select(2, pcall(redis.call, 'nosuch'))",
            r#""ERR Unknown Redis command called from script""#,
        ),
        ("return fields(redis.error_reply('A b'))", r#"["err=A b"]"#),
        (
            "return fields(redis.pcall())",
            r#"["err=ERR Please specify at least one argument for this redis lib call"]"#,
        ),
    ] {
        assert_eq!(run(&mut node, &format!("{fields}{body}")), reply, "{body}");
    }
}

#[test]
fn a_script_that_declares_writes_is_refused_where_none_may_be() {
    let mut node = Node::default();
    let refused = "-ERR Can not execute a script with write flag using *_ro command.";
    for head in ["#!lua", "#!lua flags=", "#!lua flags=allow-oom"] {
        let body = format!("{head}\nreturn 1");
        let reply = node.execute(&[b"EVAL_RO", body.as_bytes(), b"0"]);
        assert_eq!(crate::harness::render(&reply), refused, "{head}");
        assert_eq!(run(&mut node, &body), "1", "{head}");
    }
    let reply = node.execute(&[b"EVAL_RO", b"#!lua flags=no-writes\nreturn 1", b"0"]);
    assert_eq!(reply, Reply::Integer(1));
    let reply = node.execute(&[b"EVAL_RO", b"return redis.call('publish','a','b')", b"0"]);
    assert!(crate::harness::render(&reply).starts_with("-ERR Write commands are not allowed"));
}

#[test]
fn what_a_script_learns_of_the_node() {
    let mut node = Node::default();
    assert_eq!(run(&mut node, "return redis.REDIS_VERSION"), "\"7.2.4\"");
    let number = (7 << 16) | (2 << 8) | 4;
    let shown = run(&mut node, "return redis.REDIS_VERSION_NUM");
    assert_eq!(shown, number.to_string());
    for (body, reply) in [
        ("return redis.acl_check_cmd('GET')", "1"),
        ("return redis.acl_check_cmd('select', '1')", "1"),
        ("return redis.acl_check_cmd('config', 'get')", "1"),
        ("return redis.breakpoint()", "nil"),
        ("return redis.debug('x')", "nil"),
    ] {
        assert_eq!(run(&mut node, body), reply, "{body}");
    }
    let reply = run(&mut node, "return redis.acl_check_cmd('nosuch')");
    assert!(reply.starts_with("-ERR Invalid command passed to redis.acl_check_cmd()"));
}
