"""A slow network as a program sees it, where the kernel has no netem: a proxy of TCP.

It forwards what is sent to a port of 127.0.0.2 to the same port of 127.0.0.1, late, and stands in
for lost packets by what their retransmission costs: such a piece, and all after it, come later.
"""

import asyncio
import random
import threading

HOST = "127.0.0.2"
RETRANSMISSION = 0.4  # seconds


class SlowProxy:
    """Forwards some ports; ``delay`` seconds each way, and a share of pieces lost once."""

    def __init__(self, ports, delay, loss, seed=1):
        self._delay, self._loss = delay, loss
        self._draw = random.Random(seed)
        self.forwarded = self.lost = 0  # pieces
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ports, is_ready), daemon=True)
        self._thread.start()
        assert is_ready.wait(30)

    def close(self):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _run(self, ports, is_ready):
        self._loop.run_until_complete(self._serve(ports, is_ready))
        self._loop.close()

    async def _serve(self, ports, is_ready):
        servers = [
            await asyncio.start_server(lambda r, w, p=port: self._forward(r, w, p), HOST, port)
            for port in ports
        ]
        is_ready.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # for what was closed

    async def _forward(self, reader, writer, port):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        finally:
            writer.close()
            far_writer.close()

    async def _pass(self, reader, writer):
        """Send on what comes, in its order; how long each piece is under way does not add up."""
        pieces = asyncio.Queue()
        sender = asyncio.ensure_future(self._send(pieces, writer))
        try:
            while data := await reader.read(1 << 16):
                pieces.put_nowait((self._due(), data))
        except ConnectionError:
            pass
        pieces.put_nowait((self._loop.time() + self._delay, b""))
        await sender

    def _due(self):
        is_lost = self._draw.random() < self._loss
        self.forwarded += 1
        self.lost += is_lost
        return self._loop.time() + self._delay + RETRANSMISSION * is_lost

    async def _send(self, pieces, writer):
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(due - self._loop.time())
            if not data:
                break
            writer.write(data)
        writer.close()
