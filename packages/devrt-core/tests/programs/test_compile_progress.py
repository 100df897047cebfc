"""What a terminal, a notebook and the log show of a compilation that takes long."""

import io
import logging
import threading
import types

import pytest

from devrt.programs import compile_progress


class Terminal(io.StringIO):
    """Tells when something was written."""

    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self):
        return self._is_terminal

    def write(self, text):
        self.written.set()
        return super().write(text)


def test_a_terminal_shows_it_and_is_clean_afterwards(monkeypatch):
    terminal = Terminal(is_terminal=True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(compile_progress, "_PATIENCE", 0.001)
    monkeypatch.setattr(compile_progress, "_STEP", 0.001)
    with compile_progress.shown_while_compiling("f", 8):
        assert terminal.written.wait(60)
    shown = terminal.getvalue()
    assert shown.startswith("\rdevrt: compiling f for 8 devices: 0 s")
    assert shown.endswith("\r\x1b[K")


def test_a_notebook_shows_one_bar_that_is_full_at_the_end(notebook, monkeypatch):
    monkeypatch.setattr(compile_progress, "_PATIENCE", 0.001)
    monkeypatch.setattr(compile_progress, "_STEP", 0.001)
    with compile_progress.shown_while_compiling("<lambda>", 8):
        assert notebook.updated.wait(60)
    first, *_, last = notebook.shown
    assert first.startswith("<progress></progress> compiling &lt;lambda&gt; for 8 devices: ")
    assert last.startswith('<progress value="1" max="1"></progress> compiling &lt;lambda&gt; ')
    assert notebook.handles == 1


def test_a_notebook_shows_nothing_of_what_is_quick(notebook, monkeypatch):
    monkeypatch.setattr(compile_progress, "_PATIENCE", 0)
    monkeypatch.setattr(compile_progress, "_STEP", 1e6)
    with compile_progress.shown_while_compiling("f", 8):
        pass
    assert notebook.shown == []


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in of a notebook, with what is shown in it."""
    made = types.SimpleNamespace(shown=[], handles=0, updated=threading.Event())

    def update(html):
        made.shown.append(html)
        made.updated.set()

    def display(html, display_id):
        made.shown.append(html)
        made.handles += 1
        return types.SimpleNamespace(update=update)

    page = types.SimpleNamespace(HTML=str, display=display)
    monkeypatch.setattr(compile_progress, "notebook_display", lambda: page)
    return made


def test_elsewhere_a_record_says_how_long_it_took(monkeypatch, caplog):
    file = Terminal(is_terminal=False)
    monkeypatch.setattr("sys.stderr", file)
    monkeypatch.setattr(compile_progress, "_PATIENCE", 0)
    with caplog.at_level(logging.INFO, "devrt"), compile_progress.shown_while_compiling("f", 1):
        pass
    assert "compiling f for 1 device took" in caplog.text
    assert file.getvalue() == ""


def test_what_is_quick_shows_nothing(monkeypatch, caplog):
    terminal = Terminal(is_terminal=True)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(compile_progress, "_PATIENCE", 1e6)
    with caplog.at_level(logging.INFO, "devrt"), compile_progress.shown_while_compiling("f", 1):
        pass
    assert terminal.getvalue() == ""
    assert "compiling f" not in caplog.text
