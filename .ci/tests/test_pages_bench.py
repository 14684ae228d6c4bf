"""Tests of `benches/pages`: addresses, requests, streams of events, results and the series."""
import gzip
import importlib.util
import json
import os
import socket
import sys
import tempfile
import threading
import tomllib
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
BENCHES = Path(__file__).resolve().parents[2] / "benches"
sys.path[:0] = [str(BENCHES / folder) for folder in ("pages", "measuring", "views", "data_plane")]

import browser  # noqa: E402
import made  # noqa: E402
import measurements  # noqa: E402
import outline  # noqa: E402
import series  # noqa: E402
import server  # noqa: E402
from figure import Figure  # noqa: E402
from program import Failed  # noqa: E402

SPEC = importlib.util.spec_from_file_location("measure_pages", BENCHES / "pages/measure.py")
measure_pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(measure_pages)

PAGE = gzip.compress(b"<h1>" + 5_000 * b"a" + b"</h1>")
FACTS = {
    "date": "2026-11-28", "commit": "0123abcd", "machine": "two cores, idle", "n": "medians of 9",
    "command": "benches/pages/measure.py PROGRAM --folder FOLDER", "made_by": [],
}


class Pages(BaseHTTPRequestHandler):
    """A page for the holder of the cookie, and events of a run."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # noqa: N802
        self.close_connection = True
        if "=secret" not in self.headers.get("cookie", ""):
            return self.send_error(401)
        self.send_response(200)
        if self.path.endswith("/events"):
            self.end_headers()
            for over in (False, True):
                message = json.dumps({"over": over, "stages": [{"stage": "a", "status": "running"}]})
                self.wfile.write(f"id: 1\ndata: {message}\n\n".encode())
            return None
        if self.path != "/plain":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        self.wfile.write(PAGE)
        return None

    def log_message(self, *_):
        pass


class Requests(unittest.TestCase):
    def setUp(self):
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = server.Address("127.0.0.1", self.http.server_address[1], "secret", "/")

    def tearDown(self):
        self.http.shutdown()
        self.http.server_close()

    def test_a_page_has_a_time_and_its_compressed_size(self):
        response = server.get(self.address, "/")
        self.assertEqual(response.size, len(PAGE))
        self.assertLessEqual(response.first, response.whole)

    def test_wrong_pages_fail(self):
        with self.assertRaisesRegex(Failed, "not compressed"):
            server.get(self.address, "/plain")
        with self.assertRaisesRegex(Failed, "status 401"):
            server.get(server.Address("127.0.0.1", self.address.port, "other", "/"), "/")

    def test_messages_of_a_stream_have_their_times(self):
        with server.events_of(self.address, "r") as connection:
            found = list(server.messages(connection))
        self.assertEqual([message["over"] for _, message in found], [False, True])
        self.assertLessEqual(found[0][0], found[1][0])

    def test_watchers_open_every_connection(self):
        with tempfile.TemporaryDirectory() as folder:
            errors = Path(folder) / "errors.txt"
            errors.write_text(f"page: http://127.0.0.1:{self.address.port}/runs/r1?token=secret\n")
            watchers = server.Watchers(errors, lambda address: address.path.split("/")[2], 7)
            watchers.start()
            watchers.join(timeout=20)
        self.assertEqual((watchers.failure, watchers.opened), (None, 7))
        self.assertGreater(watchers.received, 7 * 50)


class Parts(unittest.TestCase):
    def test_an_address_has_a_token_and_a_path(self):
        found = server.Address.of("http://127.0.0.1:7878/runs/r1?token=a-b")
        self.assertEqual((found.port, found.token, found.path), (7878, "a-b", "/runs/r1"))
        self.assertEqual(found.headers["Cookie"], "trainyard_7878=a-b")

    def test_lines_that_are_cut_between_two_reads_are_whole(self):
        ours, theirs = socket.socketpair()
        theirs.sendall(b'HTTP/1.1 200 OK\r\n\r\ndata: {"a"')
        threading.Timer(0.05, lambda: (theirs.sendall(b": 1}\n\n"), theirs.close())).start()
        self.assertEqual([message for _, message in server.messages(ours)], [{"a": 1}])
        ours.close()

    def test_workflows_have_their_sizes(self):
        with tempfile.TemporaryDirectory() as folder:
            made.beating(Path(folder))
            stages = json.loads((Path(folder) / "workflow.yaml").read_text())["stages"]
        self.assertEqual(len(stages), made.BEATS)
        self.assertEqual(stages["beat001"]["needs"], ["beat000"])

    def test_an_outline_counts_elements_and_follows_links(self):
        text = '<h1>x &lt;i&gt;</h1><p><a href="?from=9&amp;x=1#m9"> Last <b>one</b></a><br>'
        page = outline.Outline("/a/rows/0", text)
        self.assertEqual(page.elements, 5)
        self.assertEqual(page.link("Last one"), "/a/rows/0?from=9&x=1")
        with self.assertRaisesRegex(Failed, "no link 'First one'"):
            page.link("First one")

    def test_a_long_rollout_has_calls_with_results_and_ends_with_an_answer(self):
        messages = [made.message(n, 6) for n in range(6)]
        self.assertEqual([one["role"] for one in messages], ["user"] + 2 * ["assistant", "tool"] + ["assistant"])
        self.assertEqual(messages[4]["tool_call_id"], messages[3]["tool_calls"][0]["id"])
        self.assertEqual(messages[5], {"role": "assistant", "content": "The answer of message 5."})

    def test_the_address_of_a_first_page_has_the_token(self):
        address = server.Address("127.0.0.1", 7878, "a-b", "/")
        self.assertEqual(address.url("/rows/0?from=1"), "http://127.0.0.1:7878/rows/0?from=1")
        self.assertEqual(address.url("/rows/0", with_token=True), "http://127.0.0.1:7878/rows/0?token=a-b")

    def test_pipes_leave_the_numbers_of_the_browser_free(self):
        ends = browser.pipe()
        self.assertGreaterEqual(min(ends), browser.FREE)
        os.write(ends[1], b"x")
        self.assertEqual(os.read(ends[0], 1), b"x")
        for end in ends:
            os.close(end)

    def test_moments_are_those_of_the_journal(self):
        self.assertEqual(measurements.moment("1970-01-01T00:00:01.250Z"), 1.25)


class Recorded(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = mock.Mock(digest="abc", commit="0123abcdef", version="trainyard 0.1.0 (0123abcdef)")
        self.bench = measurements.Bench(program, self.folder, measurements.SMALL)

    def test_a_result_is_measured_once(self):
        calls = []

        def case(_):
            calls.append(1)
            yield Figure("a page", "ms", [1.0, 2.0, 3.0], 200)

        results = measure_pages.Results(self.folder / "pages.json")
        with mock.patch.dict(measure_pages.MEASUREMENTS, {"graph": case}), mock.patch("sys.stdout", StringIO()):
            self.assertTrue(measure_pages.SESSION.measure("graph", self.bench, results))
            again = measure_pages.Results(self.folder / "pages.json")
            self.assertTrue(measure_pages.SESSION.measure("graph", self.bench, again))
        self.assertEqual(len(calls), 1)

    def test_a_failure_is_told_and_not_kept(self):
        def case(_):
            raise Failed("no page")
            yield

        results = measure_pages.Results(self.folder / "pages.json")
        with mock.patch.dict(measure_pages.MEASUREMENTS, {"graph": case}), mock.patch("sys.stderr", StringIO()) as said:
            self.assertFalse(measure_pages.SESSION.measure("graph", self.bench, results))
        self.assertIn("graph: no page", said.getvalue())
        self.assertEqual(results.all, [])

    def test_a_series_is_valid_and_names_missed_goals(self):
        figures = [Figure("a page", "ms", [100.0, 210.0, 220.0], 200, 51), Figure("its size", "kB", [20.0], 200)]
        path = series.append(measure_pages.SUBJECT, "Two cores", FACTS, figures, self.folder)
        written = tomllib.loads(path.read_text())
        self.assertEqual(written["title"], "Pages")
        recorded = written["series"][0]
        self.assertIn("Goals that are missed: a page.", recorded["notes"])
        self.assertEqual(recorded["records"][0], {"row": "a page", "column": "median", "value": 210, "unit": "ms"})
        with self.assertRaisesRegex(Failed, "choose another"):
            series.append(measure_pages.SUBJECT, "Two cores", FACTS, figures, self.folder)


if __name__ == "__main__":
    unittest.main()
