//! What lists of several clusters say, and which are refused.

use super::*;

fn clusters(text: &str) -> Result<Clusters, String> {
    let read = Clusters::of(&NodeList::default(), Groups::read(text));
    match read {
        Ok(clusters) => clusters.ok_or_else(|| "no node".to_owned()),
        Err(failure) => Err(failure.what),
    }
}

fn names(text: &str) -> Vec<String> {
    let read = clusters(text).expect(text);
    let name = |list: &NodeList| list.cluster.as_deref().unwrap_or("-").to_owned();
    read.all().iter().map(name).collect()
}

#[test]
fn addresses_may_be_separated_by_commas_and_blanks() {
    assert_eq!(split(" a,b ,\nc,, "), ["a", "b", "c"]);
    assert!(split(" , ").is_empty());
    let sentinels = "redis+sentinel://:to/p@s1:1,s2,[::1]:3/m";
    assert_eq!(split(&format!("a,{sentinels},b")), ["a", sentinels, "b"]);
    let etcd = "etcd://me:p@e1,e2:1,[::1]:3";
    assert_eq!(split(&format!("{etcd},redis://b")), [etcd, "redis://b"]);
    let cluster = "rediss-cluster://me:p@c1,c2:1,[::1]:3";
    assert_eq!(
        split(&format!("{cluster} redis://b")),
        [cluster, "redis://b"]
    );
    // Its master is missing: it does not take in another address.
    let half = ["redis+sentinel://s1,s2", "redis://b"];
    assert_eq!(split(&half.join(",")), half);
}

#[test]
fn clusters_are_between_semicolons_and_may_have_names() {
    assert_eq!(names("a:1,b:1,c:1"), ["-"]);
    assert_eq!(names("a:1 b:1;"), ["-"]);
    assert_eq!(names("east=a:1,b:1"), ["east"]);
    for text in [
        "east=a:1,b:1;west=c:1",
        "east=a:1 b:1\nwest=c:1",
        ";east=a:1,b:1 ;; west= c:1,;",
        "east=a:1,b:1,west=c:1;next=east,west,north",
        "next=east,west,north;east=a:1,b:1;west=c:1",
    ] {
        assert_eq!(names(text), ["east", "west"], "{text}");
        let read = clusters(text).expect(text);
        assert_eq!(read.all()[0].nodes, ["redis://a:1", "redis://b:1"]);
        assert_eq!(read.are_changing(), text.contains("next"), "{text}");
    }
    // A login may have one, as long as it can be told from the end of a cluster.
    let login = "redis://:p;ss@a:1,redis://u:;x;@b:1";
    let read = clusters(&format!("{login};c:1")).expect("it is good");
    assert_eq!(read.all()[0].nodes.join(","), login);
    assert_eq!(read.all()[1].nodes, ["redis://c:1"]);
    assert_eq!(
        names("redis://a:1;redis://:p@b:1;/run/x@y"),
        ["a:1", "b:1", "/run/x@y"]
    );
    // Without names: where the nodes are, in any order and whoever logs in.
    let unnamed = ["a:1,b:1", "c:1,/run/d=e.sock"];
    assert_eq!(names(&unnamed.join(";")), ["a:1,b:1", "/run/d=e.sock,c:1"]);
    assert_eq!(
        names("rediss://:p@B:1/2,a:1;redis+sentinel://s,t:1/m"),
        ["a:1,b:1", "s:26379+t:1/m"]
    );
    assert_eq!(
        names("a:1;redis+sentinel://t:1,s/m"),
        ["a:1", "s:26379+t:1/m"],
        "whichever Sentinel comes first"
    );
}

#[test]
fn what_cannot_be_shared_out_is_refused() {
    for (text, part) in [
        (";", "no node"),
        ("next=a,b", "next= names clusters"),
        ("east=a:1;next=b:1", "'b:1' is none"),
        ("east=;west=a:1", "cluster 'east' names no node"),
        ("east=a:1;b:1", "some have none"),
        ("east=a:1;east=b:1", "two clusters are called 'east'"),
        (
            "east=a:1;west=redis://:p@A:1/3",
            "redis://a:1/3 is listed twice",
        ),
        ("a:1;b:1;next=a,b", "next= names clusters"),
        ("east=a:1;next=east,east", "two clusters are called 'east'"),
        ("east=a:1;west=b:1;next=", "next= names no cluster"),
        (
            "e=redis+sentinel://s,t/m;f=redis+sentinel://t,s/m",
            "is listed twice",
        ),
        ("a:1;7", "'7' is not a node's address"),
    ] {
        let refused = clusters(text).expect_err(text);
        assert!(refused.contains(part), "{text}: {refused}");
    }
}

#[test]
fn each_name_leads_to_its_cluster_with_the_prefix_and_while_it_moves() {
    let mut read = clusters("east=a:1;west=b:1;next=east,west,north").expect("it is good");
    let nodes = |list: NodeList| list.nodes.concat();
    let taken = |read: &Clusters, names: &[&'static str]| {
        let names = names.iter().map(|name| name.as_bytes());
        read.taking(names)
            .map(nodes)
            .map_err(|failure| (failure.code, failure.kind()))
    };
    assert_eq!(taken(&read, &["backup"]), Ok("redis://a:1".to_owned()));
    assert_eq!(taken(&read, &["report"]), Err((NO_QUORUM, "moves")));
    assert_eq!(nodes(read.having(b"report")), "redis://b:1");
    assert_eq!(read.moves_to(b"report"), Some("north"));
    assert_eq!(
        taken(&read, &["backup", "report"]),
        Err((crate::exit_code::USAGE, "usage"))
    );
    read.set_prefix("app:");
    assert_eq!(taken(&read, &["backup"]), Ok("redis://b:1".to_owned()));
    assert!(read.only("an agent").is_err());
    let one = clusters("a:1").expect("it is good");
    assert_eq!(taken(&one, &["x", "y"]), Ok("redis://a:1".to_owned()));
    assert!(one.only("an agent").is_ok());
}
