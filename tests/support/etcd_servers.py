"""etcd servers of a test's own: one, or several that are one cluster."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest


def _free_ports(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class EtcdServers:
    """Members of one cluster, each a process; a port may be lost to another program: start anew.

    With ``files``, as `certificates` gives them, it wants certificates of clients, but with
    ``only_server`` among them.
    """

    def __init__(self, size=1, options=(), files=None):
        for command, package in (("etcd", "etcd-server"), ("etcdctl", "etcd-client")):
            if shutil.which(command) is None:
                pytest.skip(f"{command} is not installed (Debian's {package})")
        memory = "/dev/shm"  # etcd waits for its disk at every change
        self._folder = tempfile.mkdtemp(dir=memory if os.path.isdir(memory) else None)
        ports = _free_ports(2 * size)
        self._clients, self._peers = ports[:size], ports[size:]
        self._options = [*options, *self._tls_options(files)]
        self._scheme = "https" if files else "http"
        self._ctl_options = [
            f"--{flag}={files[f'mtls_{name}_file']}"
            for name, flag in (("cert", "cert"), ("key", "key"), ("ca", "cacert"))
            if files
        ]
        self.processes = [self._started(number) for number in range(size)]
        for number in range(size):
            self.wait_for(number)

    @property
    def hosts(self):
        """Return the members as an address has them."""
        return ",".join(f"127.0.0.1:{port}" for port in self._clients)

    def address(self, name):
        """Return the address of a job."""
        return f"etcd://{self.hosts}/{name}"

    def wait_for(self, number, seconds=30):
        """Wait until a member answers that it is healthy."""
        end = time.monotonic() + seconds
        while self.etcdctl(number, "endpoint", "health").returncode:
            assert self.processes[number].poll() is None, "etcd has ended"
            assert time.monotonic() < end, "etcd does not answer"

    def etcdctl(self, number, *command):
        """Ask a member by etcd's own command."""
        where = f"--endpoints={self._scheme}://127.0.0.1:{self._clients[number]}"
        return subprocess.run(
            ["etcdctl", where, *self._ctl_options, *command],
            env={**os.environ, "ETCDCTL_API": "3"},
            capture_output=True,
            text=True,
            check=False,
        )

    def ask_for_users(self, user, password, prefix):
        """Let only users call, and one of them only for keys that begin so."""
        root = "--user=root:root"
        for command in (
            ("user", "add", "root:root"),
            ("role", "add", "job"),
            ("role", "grant-permission", "job", "readwrite", "--prefix=true", prefix),
            ("user", "add", f"{user}:{password}"),
            ("user", "grant-role", user, "job"),
            ("user", "grant-role", "root", "root"),
            ("auth", "enable"),
        ):
            done = self.etcdctl(0, *command)
            assert done.returncode == 0, done.stderr
        self._ctl_options.append(root)

    def leader(self):
        """Return the number of the member that leads."""
        for number in range(len(self.processes)):
            if self.processes[number].poll() is None:
                row = self.etcdctl(number, "endpoint", "status").stdout.split(", ")
                if len(row) > 4 and row[4] == "true":
                    return number
        raise AssertionError("no member leads")

    def kill(self, number):
        """End a member at once."""
        self.processes[number].kill()
        self.processes[number].wait()

    def restart(self, number):
        """Start a member that was ended, with what it had."""
        self.processes[number] = self._started(number)
        self.wait_for(number)

    def close(self):
        """End all, and delete what they had."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _tls_options(files):
        if not files:
            return []
        ca = f"--trusted-ca-file={files['mtls_ca_file']}"
        return [
            f"--cert-file={files['mtls_cert_file']}",
            f"--key-file={files['mtls_key_file']}",
            *([] if "only_server" in files else [ca, "--client-cert-auth"]),
        ]

    def _started(self, number):
        members = ",".join(
            f"m{one}=http://127.0.0.1:{port}" for one, port in enumerate(self._peers)
        )
        client, peer = self._clients[number], self._peers[number]
        flags = {
            "name": f"m{number}",
            "data-dir": f"{self._folder}/{number}",
            "listen-client-urls": f"{self._scheme}://127.0.0.1:{client}",
            "advertise-client-urls": f"{self._scheme}://127.0.0.1:{client}",
            "listen-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
            "initial-cluster": members,
            "heartbeat-interval": "50",
            "election-timeout": "500",
        }
        command = ["etcd", *(f"--{name}={value}" for name, value in flags.items())]
        return subprocess.Popen(
            [*command, *self._options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
