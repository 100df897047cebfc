"""What a plugin's failures become; everything is given back, whatever fails."""

import pytest

CLEAN = "[0, 0, 0, 0, 0]"


@pytest.mark.parametrize("function", ["Client_Create", "Client_PlatformName", "Client_Devices"])
def test_a_client_that_cannot_be_made(child, function):
    done = child(
        """
        error = raised(client)
        print(type(error).__name__, int(error.code), error.payload, error.operation)
        import gc; gc.collect()
        print(counts())
        """,
        FAKE_FAIL=function,
        FAKE_CODE=9,
    )
    assert done.stdout == f"DevrtError 9 {{'fake/url': b'data'}} PJRT_{function}\n{CLEAN}\n"


def test_a_client_without_devices_is_refused_and_given_back(child):
    done = child(
        "e = raised(client); print(e)\nimport gc; del e; gc.collect(); print(counts())",
        FAKE_NO_DEVICES=1,
    )
    assert "made a client without a device" in done.stdout
    assert CLEAN in done.stdout


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, "InvalidArgumentError"),
        (8, "OutOfMemoryError"),
        (12, "UnimplementedError"),
        (13, "InternalError"),
        (4, "DeadlineExceededError"),
        (99, "DevrtError"),
    ],
)
def test_a_code_chooses_the_error(child, code, kind):
    done = child(
        """
        c = client()
        error = raised(c.buffer_from_pyval, np.zeros(2, np.float32))
        print(type(error).__name__, "fake failure of Client_BufferFromHostBuffer" in str(error))
        print(error.device)
        c.close(); print(counts())
        """,
        FAKE_FAIL="Client_BufferFromHostBuffer",
        FAKE_CODE=code,
    )
    assert done.stdout == f"{kind} True\nfake:0\n{CLEAN}\n"


@pytest.mark.parametrize(
    "function", ["Buffer_ReadyEvent", "Event", "Buffer_UnsafePointer", "Event_OnReady"]
)
@pytest.mark.parametrize("slow", [{}, {"FAKE_SLOW": 20}])
def test_a_buffer_whose_work_failed_raises_where_it_is_waited_for(child, function, slow):
    done = child(
        """
        c = client()
        b = c.buffer_from_pyval(np.zeros(2, np.float32))
        for read in (lambda: np.asarray(b), lambda: np.asarray(b)):
            try:
                read()
                print("read")
            except errors.InternalError as error:
                print(error.operation != "", "fake failure" in str(error))
        b.delete(); del b, read; c.close()
        import time; time.sleep(0.1)
        print(counts())
        """,
        FAKE_FAIL=function,
        **slow,
    )
    first = "True True" if slow or function != "Event_OnReady" else "read"
    assert done.stdout == f"{first}\n{first}\n{CLEAN}\n"


def test_a_buffer_that_is_never_ready_has_a_deadline(child):
    done = child(
        """
        import threading, time
        c = client()
        b = c.buffer_from_pyval(np.zeros(2, np.float32))
        print(b.is_ready())
        error = raised(b.block_until_ready, timeout=0.05)
        print(type(error).__name__, error)
        # A waiter without one learns of it when the client is closed.
        output = []
        waiter = threading.Thread(target=lambda: output.append(raised(b.block_until_ready)))
        waiter.start(); time.sleep(0.15); c.close(); waiter.join(20)
        print(type(output[0]).__name__)
        """,
        FAKE_NEVER=1,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "False"
    assert lines[1].startswith("DeadlineExceededError PjrtBuffer(float32[2] on fake:0")
    assert lines[2] == "ClosedError"


def test_an_interrupt_ends_a_wait(child):
    done = child(
        """
        import os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
        c = client()
        b = c.buffer_from_pyval(np.zeros(2, np.float32))
        def interrupt():
            time.sleep(0.2); os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            b.block_until_ready()
        except KeyboardInterrupt:
            print("interrupted")
        """,
        FAKE_NEVER=1,
    )
    assert done.stdout == "interrupted\n"


def test_the_gil_is_free_while_something_is_waited_for(child):
    done = child(
        """
        import threading
        c = client()
        b = c.buffer_from_pyval(np.zeros(2, np.float32))
        calls = 0; done = threading.Event()
        def count():
            global calls
            while not done.is_set(): calls += 1
        other = threading.Thread(target=count); other.start()
        b.block_until_ready(); done.set(); other.join()
        print(calls > 1000)
        """,
        FAKE_SLOW=300,
    )
    assert done.stdout == "True\n"


def test_memory_is_counted_where_the_plugin_does_not_count(child):
    code = """
        c = client(); b = c.buffer_from_pyval(np.zeros(25, np.float32)); d = b.clone()
        print(c.devices()[0].memory_stats())
        """
    assert child(code).stdout == "{'bytes_in_use': 42, 'bytes_limit': 100}\n"
    done = child(code, FAKE_FAIL="Device_MemoryStats", FAKE_CODE=12)
    words = "'bytes_in_use': 100, 'num_allocs': 1"  # the clone has no allocation of its own
    assert words in done.stdout, done.stderr


def test_memory_that_the_host_does_not_see_is_transferred(child):
    done = child(
        """
        c = client(); x = np.arange(6, dtype=np.float32).reshape(2, 3)
        b = c.buffer_from_pyval(x); y = np.asarray(b)
        print((y == x).all(), y.flags.writeable)
        try: y.flags.writeable = True
        except ValueError: print("read-only")
        try: b.__dlpack_device__()
        except BufferError as error: print("no name" in str(error))
        del b; c.close(); print(counts())
        """,
        FAKE_OFF_HOST=1,
    )
    assert done.stdout == f"True False\nread-only\nTrue\n{CLEAN}\n"


def test_a_transfer_that_fails_is_reported(child):
    done = child(
        "c = client(); b = c.buffer_from_pyval(np.zeros(2, np.float32))\n"
        "print(raised(np.asarray, b))",
        FAKE_OFF_HOST=1,
        FAKE_FAIL="Buffer_ToHostBuffer",
    )
    assert "fake failure of Buffer_ToHostBuffer" in done.stdout, done.stderr


def test_strides_that_the_plugin_does_not_take_are_copied_here(child):
    done = child(
        "c = client(); x = np.arange(6, dtype=np.float32).reshape(2, 3).T\n"
        "print((np.asarray(c.buffer_from_pyval(x)) == x).all())"
    )
    assert done.stdout == "True\n"


def test_a_forked_child_is_refused_and_its_parent_goes_on(child):
    done = child(
        """
        import os, warnings
        warnings.simplefilter("ignore")
        c = client(); b = c.buffer_from_pyval(np.arange(3, dtype=np.float32))
        pid = os.fork()
        if pid == 0:
            kinds = [type(raised(f)).__name__ for f in (
                lambda: np.asarray(b), lambda: c.buffer_from_pyval(np.zeros(2, np.float32)),
                b.block_until_ready, c.devices()[0].memory_stats)]
            b.delete(); del b; c.close()
            os.write(1, (" ".join(kinds) + "\\n").encode())
            os._exit(0)
        os.waitpid(pid, 0)
        print(np.asarray(b).tolist(), flush=True)
        del b; c.close(); print(counts())
        """
    )
    assert done.stdout == f"{' '.join(['ForkedError'] * 4)}\n[0.0, 1.0, 2.0]\n{CLEAN}\n"


def test_everything_is_destroyed_once_in_whatever_order(child):
    done = child(
        """
        import gc, random
        dice = random.Random(7)
        for step in range(200):
            c = client()
            kept, thing = [], None
            for _ in range(20):
                b = c.buffer_from_pyval(np.full(30000, 1, np.float32))
                kept += [b, b.clone(), np.asarray(b)]
            dice.shuffle(kept)
            for thing in kept[: dice.randrange(60)]:
                if dice.random() < 0.5 and hasattr(thing, "delete"): thing.delete()
            del kept[dice.randrange(60):]
            if dice.random() < 0.5: c.close()
            if dice.random() < 0.5: del c
            del kept, b, thing
            if step % 50 == 0: gc.collect()
        c = None
        gc.collect(); print(counts())
        """
    )
    assert done.stdout == f"{CLEAN}\n"


def test_views_outlive_their_client(child):
    done = child(
        """
        c = client(); b = c.buffer_from_pyval(np.full(30000, 7, np.float32))
        view = np.asarray(b); capsule = b.__dlpack__(max_version=(1, 0)); c.close()
        print(view.sum(), counts()[:2]); del view; print(counts()[:2]); del capsule
        print(counts())
        """
    )
    assert done.stdout == f"210000.0 [1, 1]\n[1, 1]\n{CLEAN}\n"
