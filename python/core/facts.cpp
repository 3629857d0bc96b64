
#include <new>
#include <string>

#include <sinew/collectives/world.hpp>
#include <sinew/core/config.hpp>
#include <sinew/topology/format/json/json.hpp>

#include "options.hpp"
#include "python.hpp"
#include "world.hpp"

namespace sinew::python {
namespace {

void bind_config(nb::module_& m) {
  nb::class_<TlsFiles>(m, "TlsFiles", "TLS settings of connections between processes. All files are PEM.")
      .def(nb::init<>())
      .def_rw("wanted", &TlsFiles::wanted)
      .def_rw("certificate", &TlsFiles::certificate)
      .def_rw("key", &TlsFiles::key)
      .def_rw("authority", &TlsFiles::authority);
  nb::class_<ConfigEntry>(m, "ConfigEntry", "A variable of the environment, and its value in effect.")
      .def_prop_ro("name", [](const ConfigEntry& e) { return std::string(e.name); })
      .def_prop_ro("expected", [](const ConfigEntry& e) { return std::string(e.expected); })
      .def_prop_ro("meaning", [](const ConfigEntry& e) { return std::string(e.meaning); })
      .def_ro("value", &ConfigEntry::value)
      .def_ro("set", &ConfigEntry::set);
  nb::class_<Config>(m, "Config", "All settings from outside. Config() reads the SINEW_ variables.")
      .def("__init__", [](Config* self) { new (self) Config(Config::from_environment()); })
      .def_prop_rw(
          "timeout", [](const Config& c) { return std::chrono::duration<double>(c.timeout).count(); },
          [](Config& c, nb::handle seconds) { c.timeout = duration_of("Config", "timeout", seconds); },
          nb::for_getter(nb::sig("def timeout(self) -> float")),
          nb::for_setter(nb::sig("def timeout(self, seconds: float | datetime.timedelta, /) -> None")), "Seconds.")
      .def_rw("host_id", &Config::host_id)
      .def_rw("transports", &Config::transports)
      .def_rw("tune", &Config::tune)
      .def_rw("tune_file", &Config::tune_file)
      .def_rw("cache_file", &Config::cache_file)
      .def_rw("transport_path", &Config::transport_path)
      .def_rw("nccl_library", &Config::nccl_library)
      .def_rw("interface", &Config::interface)
      .def_rw("ofi_provider", &Config::ofi_provider)
      .def_rw("ports", &Config::ports, nb::for_setter(nb::arg("ports").none()))
      .def_rw("secret_file", &Config::secret_file)
      .def_rw("tls", &Config::tls)
      .def_rw("trace_dir", &Config::trace_dir)
      .def_rw("time_calls", &Config::time_calls)
      .def_rw("python_sites", &Config::python_sites)
      .def_rw("verify_plans", &Config::verify_plans)
      .def(
          "describe", [](const Config& c) { return describe(c); }, "A row for each variable.");
}

}  // namespace

void bind_facts(nb::module_& m) {
  bind_config(m);
  nb::class_<TransportStatus>(m, "TransportStatus", "The state of a transport on this rank.")
      .def_ro("name", &TransportStatus::name)
      .def_ro("ok", &TransportStatus::ok)
      .def_ro("reason", &TransportStatus::reason)
      .def_ro("no_device", &TransportStatus::no_device)
      .def_ro("offload", &TransportStatus::offload)
      .def_ro("left_alone", &TransportStatus::left_alone);
  nb::class_<RankSpot>(m, "RankSpot", "The place where a rank runs. -1: none, or unknown.")
      .def_ro("host", &RankSpot::host, "The index in Cluster.hosts.")
      .def_ro("numa_node", &RankSpot::numa_node)
      .def_ro("usable_cores", &RankSpot::usable_cores)
      .def_ro("gpu", &RankSpot::gpu)
      .def_ro("nic", &RankSpot::nic)
      .def_ro("nic_why", &RankSpot::nic_why);
  nb::class_<Cluster>(m, "Cluster", "The hosts of a job, and the place of each rank. It is equal on all ranks.")
      .def_ro("ranks", &Cluster::ranks)
      .def_prop_ro(
          "hosts",
          [](const Cluster& c) {
            nb::list hosts;
            const nb::object loads = nb::module_::import_("json").attr("loads");
            for (const Machine& host : c.hosts) hosts.append(loads(to_json(host)));
            return hosts;
          },
          nb::sig("def hosts(self) -> list[dict[str, typing.Any]]"),
          "The machines, as `sinew-info topology --json` shows them.")
      .def("groups_by_host", &Cluster::groups_by_host, "The ranks of each host.")
      .def(
          "ranks_on_host",
          [](const Cluster& c, int rank) {
            if (rank < 0 || static_cast<std::size_t>(rank) >= c.ranks.size())
              throw Error(Code::InvalidArgument, "ranks_on_host: the rank is none of the cluster");
            return c.ranks_on_host(rank);
          },
          nb::arg("rank"), "The ranks on the host of `rank`.");
}

}  // namespace sinew::python
