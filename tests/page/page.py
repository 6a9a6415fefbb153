"""What a browser shows of a cluster, while a node is killed and started again; and the committed reports on a phone."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PROGRAM, SCRATCH = sys.argv[1:]
REPORTS = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/book/experiments"))
DIRECTORY = os.path.join(SCRATCH, "cluster")
NAME = "<img src=x onerror=alert(1)>\n"
UNITS_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}
passed = 0


def check(what, holds, seen):
    global passed
    if not holds:
        print(f"FAIL {what}: {seen}")
        print(f"{passed} passed, 1 failed, 0 skipped")
        sys.exit(1)
    passed += 1
    print(f"ok {what}")


def quorlock(*words, nodes=None):
    environment = dict(os.environ, **({"QUORLOCK_NODES": nodes} if nodes else {}))
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=environment, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"quorlock {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def browser(width, height, scheme):
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    return driver


def texts(driver, selector):
    return driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)


def becomes(driver, what, selector, is_so, seconds=10):
    """A check that waits for the page."""
    until = time.monotonic() + seconds
    seen = texts(driver, selector)
    while not is_so(seen) and time.monotonic() < until:
        time.sleep(0.1)
        seen = texts(driver, selector)
    check(what, is_so(seen), seen)


def time_left(text):
    """The time in a text such as `restart delay, 1 min 3 s left`, in milliseconds; none where it has none."""
    parts = re.findall(r"([\d.]+) (ms|s|min|h)\b", text)
    return sum(float(number) * UNITS_MS[unit] for number, unit in parts) if parts else None


def counts_down(driver, what, selector, index):
    """A check that the time in a text of the page becomes less from look to look."""
    until = time.monotonic() + 10
    seen = []
    while len(seen) < 3 and time.monotonic() < until:
        left = [time_left(text) for text in texts(driver, selector)][index:index + 1]
        if left not in ([], [None], seen[-1:]):
            seen += left
        time.sleep(0.1)
    check(f"{what} counts down", len(seen) == 3 and seen[0] > seen[1] > seen[2], seen)


def status_of(url, host=None):
    request = urllib.request.Request(url, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def allow(node, right):
    """Gives everybody a right on a node, or takes it."""
    host, port = node.removeprefix("redis://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(f"ACL SETUSER default {right}\r\n".encode())
        check(f"a node takes {right}", link.recv(100) == b"+OK\r\n", node)


def wide(url, nodes):
    driver = browser(1280, 900, "light")
    driver.get(url)
    states = "#nodes .node .state"
    becomes(driver, "five nodes serve", states, lambda seen: seen == ["serving"] * 5)
    holder = subprocess.Popen([PROGRAM, "run", NAME, "--ttl", "8s", "--", "sleep", "60"],
                              env=dict(os.environ, QUORLOCK_NODES=nodes))
    becomes(driver, "a lock is shown by its name, as text", "#locks td.name", lambda seen: seen == [NAME.replace("\n", "\\n")])
    check("a name is no markup", driver.execute_script("return document.images.length") == 0, "an image")
    becomes(driver, "who holds it is shown", "#locks td.holder", lambda seen: len(seen) == 1 and "sleep" in seen[0])
    quorlock("cluster", "kill", "3", "--dir", DIRECTORY)
    becomes(driver, "a node that was killed has no answer", states, lambda seen: seen[2] == "no answer")
    becomes(driver, "the lock is on four nodes", "#locks .votes .yes", lambda seen: len(seen) == 4)
    quorlock("cluster", "restart", "3", "--dir", DIRECTORY)
    becomes(driver, "a node that was started again has its restart delay", states, lambda seen: "restart delay" in seen[2])
    counts_down(driver, "a restart delay", states, 2)
    becomes(driver, "a node serves behind its restart delay", states, lambda seen: seen == ["serving"] * 5, 60)
    holder.terminate()
    holder.wait()
    becomes(driver, "a lock that was released is gone", "#locks tr", lambda seen: seen == [])
    becomes(driver, "what has changed is listed", "#events li", lambda seen: any("restart delay" in one for one in seen))
    check("charts have lines", len(driver.execute_script("return [...document.querySelectorAll('path')].map((one) => "
                                                         "one.getAttribute('d')).filter((line) => line.includes('L'))")) == 3, "none")
    elsewhere = driver.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)"
                                      ".filter((one) => !one.startsWith(location.origin))")
    check("nothing is fetched from elsewhere", elsewhere == [], elsewhere)
    check("the browser complains of nothing", driver.get_log("browser") == [], driver.get_log("browser"))
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return driver, ground


def without_majority(url, nodes):
    """What is not known of a lock is not called its end, and an old look is called old."""
    driver = browser(1280, 900, "light")
    driver.get(url)
    holder = subprocess.Popen([PROGRAM, "run", "kept", "--ttl", "40s", "--", "sleep", "60"],
                              env=dict(os.environ, QUORLOCK_NODES=nodes))
    becomes(driver, "a lock is held", "#count", lambda seen: seen == ["1 held"])
    for node in "123":
        quorlock("cluster", "pause", node, "--dir", DIRECTORY)
    becomes(driver, "a page says that no lock can be taken", "#verdict", lambda seen: "no lock can be taken" in seen[0])
    becomes(driver, "a lock of which too little is known is unknown", "#locks tr", lambda seen: "unknown" in seen[0])
    for node in "123":
        quorlock("cluster", "resume", node, "--dir", DIRECTORY)
    becomes(driver, "it is held again", "#count", lambda seen: seen == ["1 held"])
    events = texts(driver, "#events li")
    check("no end and no new holder of it is told", not any("released" in one or "held by" in one for one in events[:-1]), events)
    for right, words in [("-", lambda seen: "may be held" in seen[0]), ("+", lambda seen: seen == [""])]:
        for node in nodes.split(",")[:3]:
            allow(node, f"{right}lock.list")
        becomes(driver, f"a page says whether locks may be missing, {right}lock.list", "#more", words)
    becomes(driver, "the lock is there again", "#count", lambda seen: seen == ["1 held"])
    events = texts(driver, "#events li")
    check("a lock that is on no list is not called released", not any("released" in one for one in events), events)
    supervisor = json.loads(quorlock("cluster", "status", "--json", "--dir", DIRECTORY))["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    becomes(driver, "a page whose server hangs says so", "#verdict", lambda seen: "has no answer" in seen[0], 20)
    os.kill(supervisor, signal.SIGCONT)
    becomes(driver, "it goes on with its server", "#verdict", lambda seen: "5 of 5 nodes vote" in seen[0], 20)
    holder.terminate()
    holder.wait()
    driver.quit()


def phone(url, light, nodes):
    """With nodes, locks, holders and times that take room."""
    names = ["short", "a-name-that-is-longer-than-a-phone-is-wide/" * 3, NAME]
    for name in names:
        quorlock("acquire", name, "--ttl", "5m", nodes=nodes)
    driver = browser(390, 844, "dark")
    driver.get(url)
    becomes(driver, "five nodes serve, on a phone", "#nodes .node .state", lambda seen: seen == ["serving"] * 5)
    becomes(driver, "locks are shown on a phone", "#locks td.name", lambda seen: len(seen) == len(names))
    becomes(driver, "each is on five nodes", "#locks .votes .yes", lambda seen: len(seen) == 5 * len(names))
    counts_down(driver, "the time that a lock has left", "#locks td.left", 0)
    filled = [texts(driver, selector) != [] for selector in ("#nodes .node", "#locks td.holder", "#charts path")]
    width = driver.execute_script("return document.documentElement.scrollWidth")
    check("nothing is wider than a phone", all(filled) and width <= 390, (filled, width))
    dark = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    check("there is a dark page", dark != light, dark)
    driver.quit()


def own_page(nodes):
    """`quorlock page`, for whoever has its key."""
    page = subprocess.Popen([PROGRAM, "page", "--port", "0", "--json", "--nodes", nodes], stdout=subprocess.PIPE, text=True)
    url = json.loads(page.stdout.readline())["url"]
    bare, key = url.split("?")
    check("a page answers whoever has its key", status_of(url) == 200, url)
    check("it shows locks to whoever has its key", status_of(f"{bare}api/v1/cluster?{key}") == 200, url)
    for other in [bare, f"{bare}?{key[:-1]}", f"{bare}api/v1/cluster", f"{bare}api/v1/cluster?key="]:
        check("nobody sees it without the key", status_of(other) == 403, other)
    check("it is not answered under another name", status_of(url, "evil.example") == 421, url)
    page.terminate()
    check("a signal ends it", page.wait(10) == 0, page.returncode)


# What of a report's pictures is drawn where nobody sees it. Lanes are seen whole; a chart is scrolled to where it is wider than the page.
CUT = """
const cut = [];
for (const picture of document.querySelectorAll('figure svg')) {
    const [frame, box] = [picture.getBoundingClientRect(), picture.parentElement];
    const isWhole = getComputedStyle(picture).overflow === 'visible';
    const scrolls = getComputedStyle(box).overflowX === 'auto' && box.scrollWidth + 1 >= frame.width;
    const [left, right] = isWhole || !scrolls ? [0, innerWidth] : [frame.left, frame.right];
    for (const part of picture.querySelectorAll('text, rect, circle, line, polyline')) {
        const seen = part.getBoundingClientRect();
        const isLane = picture.classList.contains('timeline');
        if (!part.closest('defs') && (seen.left < left - 1 || seen.right > right + 1 || (isLane && seen.right > innerWidth + 1))) {
            cut.push(picture.closest('figure').innerText + ': ' + part.outerHTML.slice(0, 80));
        }
    }
}
return cut;
"""
# The colours of a report's pictures that no legend names. Where a chart has one colour, its title says what that is.
UNNAMED = """
const looks = (one) => getComputedStyle(one);
const key = [...document.querySelectorAll('.key i')].map((one) => looks(one).background + looks(one).outlineColor).join(' ');
const pattern = (fill) => [...document.querySelectorAll(fill.slice(5, -2).replace(/^.*#/, '#') + ' *')].map((one) => looks(one).fill);
const unnamed = [];
for (const lane of document.querySelectorAll('svg.timeline rect')) {
    if (lane.closest('defs')) continue;
    const fill = looks(lane).fill;
    const colours = fill.startsWith('url(') ? pattern(fill) : [fill];
    if (colours.length === 0 || !colours.every((colour) => key.includes(colour))) unnamed.push(lane.outerHTML.slice(0, 80) + colours);
}
for (const chart of document.querySelectorAll('svg.chart')) {
    const colour = (one) => looks(one).stroke === 'none' ? looks(one).fill : looks(one).stroke;
    const drawn = new Set([...chart.querySelectorAll('.bar, .dot, polyline.curve, .mark')].map(colour));
    const named = new Set([...chart.querySelectorAll('line.curve')].filter((one) => one.nextElementSibling?.tagName === 'text').map(colour));
    if (drawn.size > 1) unnamed.push(...[...drawn].filter((one) => !named.has(one)));
}
return unnamed;
"""


def reports():
    """The reports that the book shows, on a phone."""
    for scheme in ["light", "dark"]:
        driver = browser(390, 844, scheme)
        for name, pictures in [("report.html", "svg.timeline"), ("compare.html", "svg.chart")]:
            driver.get(f"file://{REPORTS}/{name}")
            what = f"{name}, {scheme}, on a phone"
            drawn = driver.execute_script("return document.querySelectorAll(arguments[0]).length", pictures)
            check(f"{what}: it has pictures", drawn > 0, drawn)
            width = driver.execute_script("return document.documentElement.scrollWidth")
            check(f"{what}: nothing is wider than the page", width <= 390, width)
            cut = driver.execute_script(CUT)
            check(f"{what}: nothing is cut off", cut == [], cut[:5])
            unnamed = driver.execute_script(UNNAMED)
            check(f"{what}: each colour has its legend", unnamed == [], unnamed[:5])
        driver.quit()


def main():
    reports()
    cluster = [PROGRAM, "cluster", "up", "--detach", "--json", "--base-port", "0", "--page-port", "0", "--dir", DIRECTORY]
    up = json.loads(subprocess.run(cluster, capture_output=True, text=True, timeout=60, check=True).stdout)
    nodes = ",".join(node["url"] for node in up["nodes"])
    driver, light = wide(up["page"], nodes)
    without_majority(up["page"], nodes)
    phone(up["page"], light, nodes)
    own_page(nodes)
    quorlock("cluster", "down", "--dir", DIRECTORY)
    becomes(driver, "a page that has no answer says so", "#verdict", lambda seen: "has no answer" in seen[0])
    driver.quit()
    print(f"{passed} passed, 0 failed, 0 skipped")


main()
