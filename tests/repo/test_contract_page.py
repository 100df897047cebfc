"""The page of the contract's members is what the abstract classes say."""

import importlib.util

import pytest

pytest.importorskip("devrt.contract")


def test_the_page_is_up_to_date(checkout):
    path = checkout.root / "tools" / "contract_page.py"
    spec = importlib.util.spec_from_file_location("contract_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    output = module.PAGE.read_text(encoding="utf-8")
    assert output == module.text(), "run: python tools/contract_page.py"
    assert "| `close` | needed | Wait for the work in flight" in output
