"""The portal of a server with 10,000 subscriptions and 1,000,000 attempts: how long pages take, and what they leave."""

import http.client
import time
from contextlib import ExitStack
from statistics import median

import msgspec

from bench import estate, visitor
from bench.event import stamped, template
from bench.lab import Lab, Receiver
from bench.process import Child, Machine, await_port, dead_port, module, resident_mb
from bench.report import Goal, Sample
from bench.scenarios import Round
from bench.server import GROUP, Recapito, Target
from bench.visitor import Order, Page
from recapito.portal.format import short_id
from tests.kit.ports import free_port

NAME = "portal"
ROUNDS = 1
GOALS = (
    Goal("portal", "slowest page of the portal: 10,000 subscriptions, 1,000,000 attempts", 1.0, "s", at_least=False),
    Goal("portal memory", "its memory after every page was opened 25 times, against 5 times", 1.25, at_least=False),
)
TOPICS, QUICK_TOPICS = 20, 2
ATTEMPTS, QUICK_ATTEMPTS = 1_000_000, 100_000
WARM_UP = 5  # times that all pages are opened until as many of them are held at once as will be from then on
OPENINGS, QUICK_OPENINGS = 20, 5
EVENTS = 10  # published to each topic, to be delivered to all its subscriptions
LONGEST_S = 120.0
LETTING_GO_S = 15.0  # the portal keeps what a page showed for 10 s after it was left


def measure(round: Round) -> list[Sample]:
    """All of it, on one server."""
    lab, chromium = round.lab, visitor.find()
    if chromium is None:
        return [Sample(goal.row, 0.0, "", visitor.HOW_TO_INSTALL) for goal in GOALS]
    with ExitStack() as stack:
        receiver, port = stack.enter_context(lab.receiver()), free_port()
        server = stack.enter_context(lab.recapito(portal_port=port))
        pages = _settle(lab, server, receiver, stack.enter_context(dead_port()))
        await_port(port)
        path = stack.enter_context(lab.directory("visitor"))
        browser = stack.enter_context(Child(module("bench.visitor"), path / "errors"))
        browser.tell(msgspec.json.encode(Order(chromium, f"http://127.0.0.1:{port}", pages)))
        return _visit(lab, browser, server.role("portal"), pages)


def _settle(lab: Lab, server: Recapito, receiver: Receiver, dead: int) -> list[Page]:
    """Give the server its subscriptions and its past; the pages to open then."""
    topics, attempts = (QUICK_TOPICS, QUICK_ATTEMPTS) if lab.quick else (TOPICS, ATTEMPTS)
    began_at = time.monotonic()
    estate.subscribe(server, topics, receiver.url(), f"http://127.0.0.1:{dead}/")
    lab.say(f"{topics * estate.SUBSCRIPTIONS_EACH:,} subscriptions made in {time.monotonic() - began_at:.0f} s")
    last = topics - 1
    topic, subscription = estate.topic_name(last), estate.subscription_name(last, 0)
    failing = estate.subscription_name(last, estate.SUBSCRIPTIONS_EACH - 1)
    server.stop()
    began_at = time.monotonic()
    past = estate.give_past(server.data, attempts, failing)
    lab.say(f"{past.attempts:,} attempts written in {time.monotonic() - began_at:.0f} s")
    server.start_again()
    event = _publish(server, receiver, topics)
    return [
        Page("overview", "/", failing),
        Page("topics", "/topics", topic),
        Page("a topic", f"/resource{GROUP}/topics/{topic}", subscription),
        Page("a subscription", f"/resource{GROUP}/topics/{topic}/eventSubscriptions/{subscription}", short_id(event)),
        Page(
            "a failing subscription",
            f"/resource{GROUP}/topics/{topic}/eventSubscriptions/{failing}?tab=letters",
            "letter-0000",
        ),
        Page("deliveries", "/deliveries", "attempts are kept"),
        Page("a search for an event id", "/deliveries", short_id(past.oldest), past.oldest),
        Page("explain a new event", f"/explain?event={event}", subscription),
        Page("explain an old event", f"/explain?event={past.oldest}", "too busy"),
        Page("dead letters", "/dead-letters", "letter-0000"),
    ]


def _publish(server: Recapito, receiver: Receiver, topics: int) -> str:
    """Publish to all topics, wait until all but the one that fails have it, and give the id of an event of the last."""
    instant = 0
    for n in range(topics):
        instant = time.monotonic_ns()
        _post(server.topic(estate.topic_name(n)), stamped(template(EVENTS), instant))
    wanted = (topics * estate.SUBSCRIPTIONS_EACH - 1) * EVENTS
    patient_until = time.monotonic() + LONGEST_S
    while receiver.tally.events < wanted:
        if time.monotonic() > patient_until:
            raise RuntimeError(f"only {receiver.tally.events:,} of {wanted:,} were delivered in {LONGEST_S:.0f} s")
        time.sleep(0.1)
    return f"{instant:019}-0000"


def _post(target: Target, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=30)
    try:
        connection.request("POST", target.path, body, {"aeg-sas-key": target.key, "Content-Type": "application/json"})
        if (status := connection.getresponse().status) != 200:
            raise RuntimeError(f"a publish was answered {status}")
    finally:
        connection.close()


def _visit(lab: Lab, browser: Child, portal: int, pages: list[Page]) -> list[Sample]:
    """Open all pages once, some times more, and then many times more."""
    first = _open_all(browser, pages)
    _say(lab, "first", first)
    machine, again = Machine(), [_open_all(browser, pages) for _ in range(WARM_UP - 1)]
    before_mb = _memory_mb(portal)
    again += [_open_all(browser, pages) for _ in range(QUICK_OPENINGS if lab.quick else OPENINGS)]
    lab.others.append(machine.others())
    after_mb = _memory_mb(portal)
    usual = {name: median(one[name] for one in again) for name in first}
    _say(lab, f"median of {len(again)}", usual)
    lab.say(f"others used {lab.others[-1]:.0%} of the machine")
    slowest = max(usual, key=lambda name: usual[name])
    worst = max(one[slowest] for one in again)
    detail = f"{slowest}: median of {len(again)}, at worst {worst:.2f} s"
    many = f"{after_mb:.0f} MB after {1 + len(again)} times {len(pages)} pages"
    return [
        Sample("portal", usual[slowest], detail),
        Sample("portal memory", after_mb / before_mb, f"{many} against {before_mb:.0f} MB after {WARM_UP} times"),
    ]


def _open_all(browser: Child, pages: list[Page]) -> dict[str, float]:
    """The seconds of each page, by its name."""
    browser.tell(b"")
    return dict(zip([page.name for page in pages], browser.json(LONGEST_S), strict=True))


def _memory_mb(portal: int) -> float:
    """The portal's memory when it has let go of the pages that were left."""
    time.sleep(LETTING_GO_S)
    return resident_mb(portal)


def _say(lab: Lab, what: str, seconds: dict[str, float]) -> None:
    lab.say(f"{what}: " + ", ".join(f"{name} {took:.2f} s" for name, took in seconds.items()))
