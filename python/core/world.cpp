#include "world.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

#include "checks.hpp"
#include "communicator.hpp"
#include "errors.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

/// The class World of Python.
class PyWorld {
 public:
  PyWorld(World world, const WorldOptions& options)
      : session_(std::make_shared<Session>(std::move(world), options)), all_(std::make_shared<Members>(session_)) {}

  const std::shared_ptr<Session>& session() const noexcept { return session_; }
  const std::shared_ptr<Members>& all() const noexcept { return all_; }

 private:
  std::shared_ptr<Session> session_;
  std::shared_ptr<Members> all_;
};

/// The keywords of World(), as Python gives them.
struct WorldArguments {
  nb::handle threads, timeout, secret, config;
  int device;
  bool count_sent;
};

WorldOptions options_of(const WorldArguments& given) {
  WorldOptions options;
  if (!given.config.is_none()) {
    if (!nb::isinstance<Config>(given.config))
      reject("World", fmt::format("config is a {}, expected a sinew.Config",
                                  nb::cast<std::string>(nb::type_name(given.config.type()))));
    options.config = *nb::inst_ptr<Config>(given.config);
  }
  const std::string threads = PyUnicode_Check(given.threads.ptr()) ? nb::cast<std::string>(given.threads) : "";
  if (threads != "single" && threads != "multiple")
    reject("World", fmt::format("threads is {}, expected \"single\" or \"multiple\"",
                                nb::cast<std::string>(nb::repr(given.threads))));
  options.threads = threads == "single" ? Threads::Single : Threads::Multiple;
  if (!given.timeout.is_none()) options.config.timeout = duration_of("World", "timeout", given.timeout);
  if (!given.secret.is_none()) {
    if (!PyBytes_Check(given.secret.ptr())) reject("World", "secret is no bytes");
    const auto* const bytes = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(given.secret.ptr()));
    options.secret.assign(bytes, bytes + PyBytes_GET_SIZE(given.secret.ptr()));
  }
  options.device = given.device;
  options.count_sent = given.count_sent;
  return options;
}

std::unique_ptr<PyWorld> make_aside(const WorldOptions& options, std::function<World()> make) {
  auto made = std::make_shared<std::optional<World>>();
  run_aside(nullptr, std::nullopt, [made, make = std::move(make)] { made->emplace(make()); });
  return std::make_unique<PyWorld>(std::move(**made), options);
}

void from_environment(PyWorld* self, nb::handle threads, nb::handle timeout, nb::handle secret, int device,
                      bool count_sent, nb::handle config) {
  const WorldOptions options = options_of({threads, timeout, secret, config, device, count_sent});
  new (self) PyWorld(std::move(*make_aside(options, [options] { return World::from_environment(options); })));
}

/// A function of Python that threads of sinew call.
class Gather {
 public:
  explicit Gather(nb::object run) : run_(std::move(run)) {}
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;
  ~Gather() {
    if (Py_IsInitialized() == 0) {
      static_cast<void>(run_.release());
      return;
    }
    const nb::gil_scoped_acquire lock;
    run_.reset();
  }
  std::vector<Bytes> operator()(const Bytes& mine) {
    const nb::gil_scoped_acquire lock;
    std::vector<Bytes> all;
    for (const nb::handle each : run_(nb::bytes(mine.data(), mine.size()))) {
      if (!PyBytes_Check(each.ptr()))
        reject("World.create", fmt::format("all_gather returned a {} in its list, expected bytes",
                                           nb::cast<std::string>(nb::type_name(each.type()))));
      const auto* const bytes = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(each.ptr()));
      all.emplace_back(bytes, bytes + PyBytes_GET_SIZE(each.ptr()));
    }
    return all;
  }

 private:
  nb::object run_;
};

std::unique_ptr<PyWorld> create(int rank, int size, nb::object all_gather, nb::handle threads, nb::handle timeout,
                                nb::handle secret, int device, bool count_sent, nb::handle config) {
  const WorldOptions options = options_of({threads, timeout, secret, config, device, count_sent});
  if (PyCallable_Check(all_gather.ptr()) == 0) reject("World.create", "all_gather is no function");
  auto gather = std::make_shared<Gather>(std::move(all_gather));
  Exchange exchange{rank, size, [gather](const Bytes& mine) { return (*gather)(mine); }};
  return make_aside(options, [options, exchange] { return World::create(exchange, options); });
}

template <class Use>
auto with(const PyWorld& self, const char* name, Use&& use) {
  const Turn turn(*self.session(), name);
  return self.session()->outside([&] { return use(self.session()->world()); });
}

template <class Result>
std::shared_ptr<std::optional<Result>> world_aside(const PyWorld& self, const char* name,
                                                   std::function<Result(World&)> body) {
  auto result = std::make_shared<std::optional<Result>>();
  Turn turn(*self.session(), name);
  self.session()->sweep();
  run_aside(self.session(), std::move(turn),
            [result, world = &self.session()->world(), body = std::move(body)] { result->emplace(body(*world)); });
  return result;
}

std::unique_ptr<PyCommunicator> subgroup(const PyWorld& self, const std::vector<int>& ranks, const std::string& name,
                                         nb::handle timeout) {
  const Duration limit = timeout.is_none() ? self.session()->timeout() : duration_of("subgroup", "timeout", timeout);
  auto made = world_aside<Communicator>(self, "subgroup",
                                        [=](World& w) { return w.subgroup(ranks, name, deadline_after(limit)); });
  return std::make_unique<PyCommunicator>(std::make_shared<Members>(self.session(), std::move(**made)));
}

std::unique_ptr<PyWorld> shrink(const PyWorld& self) {
  WorldOptions options;
  options.threads = self.session()->is_single() ? Threads::Single : Threads::Multiple;
  options.config.timeout = self.session()->timeout();
  options.config.python_sites = self.session()->names_calls();
  auto made = world_aside<World>(self, "shrink", [](World& w) { return w.shrink(); });
  self.session()->end();
  return std::make_unique<PyWorld>(std::move(**made), options);
}

std::unique_ptr<PyMemory> allocate(const PyWorld& self, std::size_t bytes, bool huge_pages) {
  Memory memory = with(self, "allocate", [&](World& w) { return w.allocate(bytes, huge_pages); });
  return std::make_unique<PyMemory>(self.session(), std::move(memory), false);
}

int poll(const PyWorld& self) {
  return with(self, "poll", [](World& w) { return w.poll(); });
}

nb::object status(const PyWorld& self) {
  const Status found = with(self, "status", [](World& w) { return w.status(); });
  return found.ok() ? nb::object(nb::none()) : exception_of(found);
}

void leave(const PyWorld& self, nb::handle type, nb::handle value) {
  if (ends_others(type, value) && self.session()->is_open() && !self.session()->in_child()) {
    const std::string why = text_of_exception(type, value);
    with(self, "__exit__", [&](World& w) { w.abort(why); });
  }
  self.session()->close();
}

}  // namespace

#define SINEW_WORLD_ARGUMENTS                                                                                    \
  nb::kw_only(), nb::arg("threads") = "single", nb::arg("timeout") = nb::none(), nb::arg("secret") = nb::none(), \
                 nb::arg("device") = -1, nb::arg("count_sent") = false, nb::arg("config") = nb::none()
#define SINEW_WORLD_OPTIONS                                                                                       \
  "threads: typing.Literal['single', 'multiple'] = 'single', timeout: float | datetime.timedelta | None = None, " \
  "secret: "                                                                                                      \
  "bytes | None = None, device: int = -1, count_sent: bool = False, config: Config | None = None"

void bind_world(nb::module_& m) {
  nb::class_<PyWorld> c(m, "World", R"(The processes of one job, and everything that is made for them.

World() finds the job by what its launcher has set: mpirun, srun, torchrun, sinew-run, sinew.run(), or the variables
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Without a launcher it has one rank.

`threads` is "single" if one thread at a time uses the World, and "multiple" otherwise. `timeout`, in seconds, is that of
all calls that have none of their own. `config` replaces the settings of the SINEW_ variables.)");
  c.def("__init__", &from_environment, SINEW_WORLD_ARGUMENTS,
        nb::sig("def __init__(self, *, " SINEW_WORLD_OPTIONS ") -> None"))
      .def_static("create", &create, nb::arg("rank"), nb::arg("size"), nb::arg("all_gather"), SINEW_WORLD_ARGUMENTS,
                  nb::sig("def create(rank: int, size: int, all_gather: collections.abc.Callable[[bytes], "
                          "collections.abc.Iterable[bytes]], *, " SINEW_WORLD_OPTIONS ") -> World"),
                  R"(Makes a World of ranks that meet by `all_gather`, which returns the bytes of all ranks, by rank.

All ranks call it the same number of times, and only inside create().)")
      .def_prop_ro(
          "rank", [](const PyWorld& self) { return self.all()->rank(); }, "This rank's number.")
      .def_prop_ro(
          "size", [](const PyWorld& self) { return self.all()->size(); }, "The number of ranks.")
      .def_prop_ro(
          "communicator", [](const PyWorld& self) { return std::make_unique<PyCommunicator>(self.all()); },
          "The communicator of all ranks.")
      .def("subgroup", &subgroup, nb::arg("ranks"), nb::arg("name"), nb::kw_only(), nb::arg("timeout") = nb::none(),
           nb::sig("def subgroup(self, ranks: collections.abc.Sequence[int], name: str, *, timeout: float | "
                   "datetime.timedelta | None = None) -> Communicator"),
           "Makes a communicator of some ranks. Only these ranks call it.")
      .def("shrink", &shrink,
           R"(Makes the World of the ranks that are left after a failure. All of them call it.

Calls of this World end, and this World is closed.)")
      .def(
          "abort",
          [](const PyWorld& self, const std::string& reason) {
            with(self, "abort", [&](World& w) { w.abort(reason); });
          },
          nb::arg("reason"), "Ends all calls of all ranks, with Aborted and `reason`.")
      .def("status", &status, nb::sig("def status(self) -> Error | None"),
           "None if this rank knows of no failure, otherwise the failure.")
      .def("allocate", &allocate, nb::arg("nbytes"), nb::arg("huge_pages") = false,
           "Allocates zeroed host memory that ranks of this host read without copies, where a transport has such "
           "memory.")
      .def(
          "transports",
          [](const PyWorld& self) { return with(self, "transports", [](World& w) { return w.transports(); }); },
          "The transports of this rank, and why others cannot be used.")
      .def(
          "cluster", [](const PyWorld& self) { return with(self, "cluster", [](World& w) { return w.cluster(); }); },
          "The machines of the job, and which rank runs where.")
      .def(
          "facts", [](const PyWorld& self) { return with(self, "facts", [](World& w) { return w.facts(); }); },
          "The facts that the selector uses, as text.")
      .def(
          "sent_bytes",
          [](const PyWorld& self) { return with(self, "sent_bytes", [](World& w) { return w.sent_bytes(); }); },
          "The bytes of messages that this rank has posted for each rank. Empty without count_sent=True.")
      .def(
          "descriptor",
          [](const PyWorld& self) { return with(self, "descriptor", [](World& w) { return w.descriptor(); }); },
          "A descriptor for an event loop, which is readable when poll() has something to do.")
      .def("poll", &poll, "Makes progress without waiting, and returns the number of events.")
      .def_prop_ro("closed", [](const PyWorld& self) { return !self.session()->is_open(); })
      .def(
          "close", [](const PyWorld& self) { self.session()->close(); },
          "Waits for the calls in flight, and ends the World and its communicators.")
      .def("__repr__",
           [](const PyWorld& self) {
             return fmt::format("<sinew.World: rank {} of {}{}>", self.all()->rank(), self.all()->size(),
                                self.session()->is_open() ? "" : ", closed");
           })
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> World"))
      .def(
          "__exit__",
          [](const PyWorld& self, nb::handle type, nb::handle value, nb::handle) { leave(self, type, value); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: type[BaseException] | None, value: BaseException | None, traceback: "
                  "types.TracebackType | None) -> None"));
}

}  // namespace sinew::python
