"""The extension of sinew. Programs use the package sinew."""

from collections.abc import Callable, Generator, Iterable, Sequence
import datetime
import types
from typing import Any, Literal


from sinew._errors import Error
from sinew._objects import Objects
from sinew._types import Array, Codec, Determinism, DType, Op

def library_version() -> str:
    """The version of the libraries that are loaded."""

def set_log_level(level: str) -> None:
    """
    Chooses the log lines of sinew in this process: trace, debug, info, warning, error or off. SINEW_LOG sets it, too.
    """

class Memory:
    """
    Registered memory, zeroed, which transports use without copies.

    It shows its bytes by the buffer protocol and by DLPack: numpy.frombuffer(memoryview(memory), dtype) is an array of it.
    The array keeps the memory.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def known_as(self) -> str:
        """
        How the memory is registered, such as "shared memory of shm", or why it is not.
        """

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def __dlpack__(self, **kwargs: Any) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...

class Work:
    """
    A call in flight. The arrays belong to the call until it has ended.

    A Work may be awaited. A Work that is dropped does not cancel its call. The arrays of that call live on until it ends.
    """

    @property
    def done(self) -> bool:
        """
        True if the call has ended. It makes no progress: in a World for one thread, use test() in loops.
        """

    def test(self) -> bool:
        """Makes progress without waiting. True if the call has ended."""

    def wait(self, timeout: float | datetime.timedelta | None = None) -> bool:
        """
        Waits for the end of the call and raises its failure.

        False if `timeout`, in seconds, passes first. The call goes on, and wait() may be called again.
        """

    @property
    def source(self) -> int:
        """
        The rank whose message this receive took. -1: the call is no receive, or it has not ended.
        """

    def then(self, run: Callable[[Error | None], object]) -> None:
        """
        Calls `run` once, with the failure of the call, or None.

        A thread of the World calls it when the call has ended. If it has ended already, this thread calls it now.
        """

    def order(self, stream: int, device: int) -> None:
        """
        Makes a CUDA stream wait for the result of the call, without a wait of the host.
        """

    @property
    def ends_by_itself(self) -> bool:
        """
        True if a thread of the World makes progress: it was made with threads="multiple".
        """

    def __await__(self) -> Generator[Any, None, None]: ...

class TlsFiles:
    """TLS settings of connections between processes. All files are PEM."""

    def __init__(self) -> None: ...

    @property
    def wanted(self) -> bool: ...

    @wanted.setter
    def wanted(self, arg: bool, /) -> None: ...

    @property
    def certificate(self) -> str: ...

    @certificate.setter
    def certificate(self, arg: str, /) -> None: ...

    @property
    def key(self) -> str: ...

    @key.setter
    def key(self, arg: str, /) -> None: ...

    @property
    def authority(self) -> str: ...

    @authority.setter
    def authority(self, arg: str, /) -> None: ...

class ConfigEntry:
    """A variable of the environment, and its value in effect."""

    @property
    def name(self) -> str: ...

    @property
    def expected(self) -> str: ...

    @property
    def meaning(self) -> str: ...

    @property
    def value(self) -> str: ...

    @property
    def set(self) -> bool: ...

class Config:
    """All settings from outside. Config() reads the SINEW_ variables."""

    def __init__(self) -> None: ...

    @property
    def timeout(self) -> float:
        """Seconds."""

    @timeout.setter
    def timeout(self, seconds: float | datetime.timedelta, /) -> None: ...

    @property
    def host_id(self) -> str: ...

    @host_id.setter
    def host_id(self, arg: str, /) -> None: ...

    @property
    def transports(self) -> list[str]: ...

    @transports.setter
    def transports(self, arg: Sequence[str], /) -> None: ...

    @property
    def tune(self) -> list[str]: ...

    @tune.setter
    def tune(self, arg: Sequence[str], /) -> None: ...

    @property
    def tune_file(self) -> str: ...

    @tune_file.setter
    def tune_file(self, arg: str, /) -> None: ...

    @property
    def cache_file(self) -> str: ...

    @cache_file.setter
    def cache_file(self, arg: str, /) -> None: ...

    @property
    def transport_path(self) -> list[str]: ...

    @transport_path.setter
    def transport_path(self, arg: Sequence[str], /) -> None: ...

    @property
    def nccl_library(self) -> str: ...

    @nccl_library.setter
    def nccl_library(self, arg: str, /) -> None: ...

    @property
    def interface(self) -> str: ...

    @interface.setter
    def interface(self, arg: str, /) -> None: ...

    @property
    def ofi_provider(self) -> str: ...

    @ofi_provider.setter
    def ofi_provider(self, arg: str, /) -> None: ...

    @property
    def ports(self) -> tuple[int, int] | None: ...

    @ports.setter
    def ports(self, ports: tuple[int, int] | None) -> None: ...

    @property
    def secret_file(self) -> str: ...

    @secret_file.setter
    def secret_file(self, arg: str, /) -> None: ...

    @property
    def tls(self) -> TlsFiles: ...

    @tls.setter
    def tls(self, arg: TlsFiles, /) -> None: ...

    @property
    def trace_dir(self) -> str: ...

    @trace_dir.setter
    def trace_dir(self, arg: str, /) -> None: ...

    @property
    def time_calls(self) -> bool: ...

    @time_calls.setter
    def time_calls(self, arg: bool, /) -> None: ...

    @property
    def python_sites(self) -> bool: ...

    @python_sites.setter
    def python_sites(self, arg: bool, /) -> None: ...

    @property
    def verify_plans(self) -> bool: ...

    @verify_plans.setter
    def verify_plans(self, arg: bool, /) -> None: ...

    def describe(self) -> list[ConfigEntry]:
        """A row for each variable."""

class TransportStatus:
    """The state of a transport on this rank."""

    @property
    def name(self) -> str: ...

    @property
    def ok(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def no_device(self) -> str: ...

    @property
    def offload(self) -> str: ...

    @property
    def left_alone(self) -> str: ...

class RankSpot:
    """The place where a rank runs. -1: none, or unknown."""

    @property
    def host(self) -> int:
        """The index in Cluster.hosts."""

    @property
    def numa_node(self) -> int: ...

    @property
    def usable_cores(self) -> int: ...

    @property
    def gpu(self) -> int: ...

    @property
    def nic(self) -> int: ...

    @property
    def nic_why(self) -> str: ...

class Cluster:
    """
    The hosts of a job, and the place of each rank. It is equal on all ranks.
    """

    @property
    def ranks(self) -> list[RankSpot]: ...

    @property
    def hosts(self) -> list[dict[str, Any]]:
        """The machines, as `sinew-info topology --json` shows them."""

    def groups_by_host(self) -> list[list[int]]:
        """The ranks of each host."""

    def ranks_on_host(self, rank: int) -> list[int]:
        """The ranks on the host of `rank`."""

class Communicator:
    """
    A group of ranks that communicate.

    All ranks make the same calls in the same order. Methods return when the call has ended. Those that begin with start_
    return a Work at once. Arrays are NumPy arrays, or other objects with the buffer protocol or DLPack. They are not copied.
    """

    @property
    def rank(self) -> int:
        """This rank's number here."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def name(self) -> str:
        """Name and size as errors show them, such as "world of 8"."""

    def rank_text(self, rank: int) -> str:
        """
        Names a rank of this communicator as errors do, such as "rank 5 (1 in tp)".
        """

    def world_rank(self, rank: int) -> int:
        """Converts a rank of this communicator to its rank in the World."""

    def split(self, color: int, key: int = 0, name: str = '', *, timeout: float | datetime.timedelta | None = None) -> Communicator:
        """
        Makes a communicator of the ranks with the same `color`, in the order of `key`, then of rank.

        A rank whose color is below 0 gets an empty communicator of size 0. All ranks call it.
        """

    def allocate(self, nbytes: int, *, timeout: float | datetime.timedelta | None = None) -> Memory:
        """
        Allocates device memory on every rank, registered for calls of this communicator. All ranks call it.
        """

    def set_stream_priority(self, priority: str) -> None:
        """
        Chooses the priority of the streams on which this communicator's calls run: "normal" or "high".

        Must be called before the first call on device memory. Local: ranks may choose differently.
        """

    def abort(self, reason: str) -> None:
        """
        Ends all calls of this communicator on all its ranks, with Aborted and `reason`.
        """

    def abort_here(self, reason: str) -> None:
        """Ends all calls of this rank alone, with Aborted and `reason`."""

    def verdict(self) -> str:
        """
        Says why the oldest call that waits has not ended. Empty: no call waits.
        """

    def stats(self) -> CommunicatorStats:
        """
        How long the calls so far took. All ranks call it. Needs SINEW_STATS=1 or Config.time_calls.
        """

    @property
    def memory_bytes(self) -> int:
        """The bytes of buffers that this rank holds for the communicator."""

    @property
    def objects(self) -> Objects:
        """The calls that take objects of Python, which are pickled."""

    def close(self) -> None:
        """
        Waits for the calls in flight and ends the communicator on this rank. That of a World ends with the World.
        """

    def __repr__(self) -> str: ...

    def __enter__(self) -> Communicator: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...

    def all_reduce(self, data: Array, out: Array | None = None, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Combines `data` of all ranks by `op` into `out` on every rank. Without `out`, into `data` itself.

        `factor` is for the operator "premulsum".
        """

    def start_all_reduce(self, data: Array, out: Array | None = None, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts all_reduce() and returns its Work."""

    def all_gather(self, data: Array, out: Array | Sequence[Array], *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Puts `data` of all ranks, in the order of the ranks, into `out` on every rank.

        `out` is one array with a block for each rank, or a list of one array for each rank.
        """

    def start_all_gather(self, data: Array, out: Array | Sequence[Array], *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts all_gather() and returns its Work."""

    def reduce_scatter(self, data: Array | Sequence[Array], out: Array, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Combines `data` of all ranks by `op` and puts block r of the result into `out` of rank r.

        `data` is one array with a block for each rank, or a list of one array for each rank.
        """

    def start_reduce_scatter(self, data: Array | Sequence[Array], out: Array, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts reduce_scatter() and returns its Work."""

    def all_to_all(self, data: Array | Sequence[Array], out: Array | Sequence[Array], *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Sends block j of `data` to rank j, and puts the block from rank i into block i of `out`. Both may be lists of one array for each rank.
        """

    def start_all_to_all(self, data: Array | Sequence[Array], out: Array | Sequence[Array], *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts all_to_all() and returns its Work."""

    def broadcast(self, data: Array, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """Copies `data` of the root into `data` of all other ranks."""

    def start_broadcast(self, data: Array, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts broadcast() and returns its Work."""

    def reduce(self, data: Array, out: Array | None = None, root: int = 0, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Combines `data` of all ranks by `op` into `out` of the root. Without `out`, into the root's `data`.
        """

    def start_reduce(self, data: Array, out: Array | None = None, root: int = 0, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts reduce() and returns its Work."""

    def gather(self, data: Array, out: Array | Sequence[Array] | None = None, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Puts `data` of all ranks, in the order of the ranks, into `out` of the root. Other ranks need no `out`.
        """

    def start_gather(self, data: Array, out: Array | Sequence[Array] | None = None, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts gather() and returns its Work."""

    def scatter(self, data: Array | Sequence[Array] | None, out: Array, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Puts block r of the root's `data` into `out` of rank r. Other ranks pass None as `data`.
        """

    def start_scatter(self, data: Array | Sequence[Array] | None, out: Array, root: int = 0, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts scatter() and returns its Work."""

    def barrier(self, *, timeout: float | datetime.timedelta | None = None, label: str | None = None) -> None:
        """Returns when all ranks have called it."""

    def start_barrier(self, *, timeout: float | datetime.timedelta | None = None, label: str | None = None) -> Work:
        """Starts barrier() and returns its Work."""

    def all_gather_v(self, data: Array, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        all_gather() of parts that differ in length. `counts` has the elements of each rank, equal on all ranks.
        """

    def start_all_gather_v(self, data: Array, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None, *, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts all_gather_v() and returns its Work."""

    def reduce_scatter_v(self, data: Array, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        reduce_scatter() into parts that differ in length. `counts` has the elements of each rank, equal on all ranks.
        """

    def start_reduce_scatter_v(self, data: Array, out: Array, counts: Sequence[int], displacements: Sequence[int] | None = None, *, op: Op = 'sum', factor: float = 1.0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts reduce_scatter_v() and returns its Work."""

    def all_to_all_v(self, data: Array, out: Array, in_counts: Sequence[int], out_counts: Sequence[int], in_displacements: Sequence[int] | None = None, out_displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Sends part j of `data` to rank j, and puts the part from rank i into part i of `out`.

        The counts are this rank's own: the elements that it sends to each rank, and those that it expects from each.
        """

    def start_all_to_all_v(self, data: Array, out: Array, in_counts: Sequence[int], out_counts: Sequence[int], in_displacements: Sequence[int] | None = None, out_displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts all_to_all_v() and returns its Work."""

    def gather_v(self, data: Array, out: Array | None = None, counts: Sequence[int] | None = None, root: int = 0, displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        gather() of parts that differ in length. Only the root passes `out` and `counts`.
        """

    def start_gather_v(self, data: Array, out: Array | None = None, counts: Sequence[int] | None = None, root: int = 0, displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts gather_v() and returns its Work."""

    def scatter_v(self, data: Array | None, out: Array, counts: Sequence[int] | None = None, root: int = 0, displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        scatter() of parts that differ in length. Only the root passes `data` and `counts`.
        """

    def start_scatter_v(self, data: Array | None, out: Array, counts: Sequence[int] | None = None, root: int = 0, displacements: Sequence[int] | None = None, *, largest_bytes: int = 0, timeout: float | datetime.timedelta | None = None, determinism: Determinism | None = None, codec: Codec | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts scatter_v() and returns its Work."""

    def send(self, data: Array, to: int, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Sends a message to a rank. It returns when the array may be reused.

        Messages of a pair of ranks with the same tag are received in the order of the sends.
        """

    def start_send(self, data: Array, to: int, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts send() and returns its Work."""

    def recv(self, out: Array, from_: int, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Receives a message from a rank. Raises Truncated if the message is longer than the array.
        """

    def start_recv(self, out: Array, from_: int, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts recv() and returns its Work."""

    def recv_any(self, out: Array, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> int:
        """
        Receives the next message with this tag from any rank. Returns that rank.
        """

    def start_recv_any(self, out: Array, tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts recv_any() and returns its Work. Work.source is the rank."""

    def sendrecv(self, data: Array, to: int, out: Array, from_: int, send_tag: int = 0, recv_tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Sends a message and receives another one at the same time. It cannot deadlock, even if all ranks call it.
        """

    def start_sendrecv(self, data: Array, to: int, out: Array, from_: int, send_tag: int = 0, recv_tag: int = 0, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts sendrecv() and returns its Work."""

    def group(self, messages: Sequence[Message], *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> None:
        """
        Starts several sends and receives together. It ends when all have ended.
        """

    def start_group(self, messages: Sequence[Message], *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts group() and returns its Work."""

    def plan(self, collective: str, count: int = 0, dtype: DType = 'float32', *, op: Op = 'sum', root: int = 0, counts: Sequence[int] | None = None, displacements: Sequence[int] | None = None, largest_bytes: int = 0, factor: float = 1.0, determinism: Determinism | None = None, codec: Codec | None = None, device: int = -1) -> Plan:
        """
        Plans a call without running it. No messages are exchanged, and the plan is equal on all ranks.

        `count` is in elements: those of the array for all_reduce, broadcast and reduce, those that each rank gives for
        all_gather and gather, those that each rank receives for reduce_scatter and scatter, those for each peer for
        all_to_all. `dtype` is a name such as "float32", or a dtype of NumPy, ml_dtypes or PyTorch.
        """

class CallStats:
    """
    Statistics of the calls of one collective, dtype and size. Times are seconds.
    """

    @property
    def collective(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def bytes(self) -> int: ...

    @property
    def algorithm(self) -> str: ...

    @property
    def transport(self) -> str: ...

    @property
    def calls(self) -> int: ...

    @property
    def failed(self) -> int: ...

    @property
    def judged(self) -> int: ...

    @property
    def total(self) -> float: ...

    @property
    def time_median(self) -> float: ...

    @property
    def busbw(self) -> float:
        """Bytes per second."""

    @property
    def skew_median(self) -> float: ...

    @property
    def skew_worst(self) -> float: ...

    @property
    def last_rank(self) -> int: ...

    @property
    def last_calls(self) -> int: ...

    @property
    def predicted(self) -> float: ...

class CommunicatorStats:
    """Statistics of a communicator since it was made."""

    @property
    def calls(self) -> list[CallStats]: ...

    @property
    def clock_error(self) -> float:
        """Seconds."""

    def to_text(self) -> str: ...

class Message:
    """One send or receive for Communicator.group()."""

    @staticmethod
    def send(data: Array, to: int, tag: int = 0) -> Message: ...

    @staticmethod
    def recv(out: Array, from_: int, tag: int = 0) -> Message: ...

class Candidate:
    """A candidate for a call: an algorithm on a transport, or an offload."""

    @property
    def algorithm(self) -> str: ...

    @property
    def transport(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def predicted(self) -> float:
        """Seconds."""

    @property
    def rejected(self) -> str:
        """The reason why it cannot run the call. Empty: it can."""

    @property
    def source(self) -> str: ...

class Plan:
    """The selector's choice for a call, with all candidates."""

    @property
    def chosen(self) -> Candidate: ...

    @property
    def candidates(self) -> list[Candidate]: ...

    @property
    def ranks(self) -> int: ...

    def explain(self) -> str:
        """All candidates as text, with the source of the numbers."""

    def to_json(self) -> str: ...

    def __repr__(self) -> str: ...

    def run(self, data: Array | None = None, out: Array | None = None, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> None:
        """Makes the call that is planned. Without `out` it works in `data`."""

    def start(self, data: Array | None = None, out: Array | None = None, *, timeout: float | datetime.timedelta | None = None, label: str | None = None, after: int | None = None) -> Work:
        """Starts run() and returns its Work."""

class World:
    """
    The processes of one job, and everything that is made for them.

    World() finds the job by what its launcher has set: mpirun, srun, torchrun, sinew-run, sinew.run(), or the variables
    RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Without a launcher it has one rank.

    `threads` is "single" if one thread at a time uses the World, and "multiple" otherwise. `timeout`, in seconds, is that of
    all calls that have none of their own. `config` replaces the settings of the SINEW_ variables.
    """

    def __init__(self, *, threads: Literal['single', 'multiple'] = 'single', timeout: float | datetime.timedelta | None = None, secret: bytes | None = None, device: int = -1, count_sent: bool = False, config: Config | None = None) -> None: ...

    @staticmethod
    def create(rank: int, size: int, all_gather: Callable[[bytes], Iterable[bytes]], *, threads: Literal['single', 'multiple'] = 'single', timeout: float | datetime.timedelta | None = None, secret: bytes | None = None, device: int = -1, count_sent: bool = False, config: Config | None = None) -> World:
        """
        Makes a World of ranks that meet by `all_gather`, which returns the bytes of all ranks, by rank.

        All ranks call it the same number of times, and only inside create().
        """

    @property
    def rank(self) -> int:
        """This rank's number."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def communicator(self) -> Communicator:
        """The communicator of all ranks."""

    def subgroup(self, ranks: Sequence[int], name: str, *, timeout: float | datetime.timedelta | None = None) -> Communicator:
        """Makes a communicator of some ranks. Only these ranks call it."""

    def shrink(self) -> World:
        """
        Makes the World of the ranks that are left after a failure. All of them call it.

        Calls of this World end, and this World is closed.
        """

    def abort(self, reason: str) -> None:
        """Ends all calls of all ranks, with Aborted and `reason`."""

    def status(self) -> Error | None:
        """None if this rank knows of no failure, otherwise the failure."""

    def allocate(self, nbytes: int, huge_pages: bool = False) -> Memory:
        """
        Allocates zeroed host memory that ranks of this host read without copies, where a transport has such memory.
        """

    def transports(self) -> list[TransportStatus]:
        """The transports of this rank, and why others cannot be used."""

    def cluster(self) -> Cluster:
        """The machines of the job, and which rank runs where."""

    def facts(self) -> str:
        """The facts that the selector uses, as text."""

    def sent_bytes(self) -> list[int]:
        """
        The bytes of messages that this rank has posted for each rank. Empty without count_sent=True.
        """

    def descriptor(self) -> int:
        """
        A descriptor for an event loop, which is readable when poll() has something to do.
        """

    def poll(self) -> int:
        """Makes progress without waiting, and returns the number of events."""

    @property
    def closed(self) -> bool: ...

    def close(self) -> None:
        """
        Waits for the calls in flight, and ends the World and its communicators.
        """

    def __repr__(self) -> str: ...

    def __enter__(self) -> World: ...

    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: types.TracebackType | None) -> None: ...
