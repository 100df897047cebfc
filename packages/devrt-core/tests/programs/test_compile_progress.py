"""What a terminal and the log show of a compilation that takes long."""

import io
import logging
import threading

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
    assert not caplog.records
