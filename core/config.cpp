#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/base/made_once.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>

extern char** environ;

namespace sinew {
namespace {

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    item = item.substr(0, item.find_last_not_of(' ') + 1);
    if (!item.empty()) items.emplace_back(item);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return items;
}

[[noreturn]] void reject() { throw Error(Code::InvalidArgument, ""); }

std::uint16_t parse_port(std::string_view text) {
  unsigned port = 0;
  if (text.empty() || text.size() > 5) reject();
  for (const char c : text) {
    if (c < '0' || c > '9') reject();
    port = port * 10 + static_cast<unsigned>(c - '0');
  }
  if (port == 0 || port > 65535) reject();
  return static_cast<std::uint16_t>(port);
}

std::string format_duration(Duration d) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  if (us % 1000 != 0) return fmt::format("{}us", us);
  return us % 1000000 == 0 ? fmt::format("{}s", us / 1000000) : fmt::format("{}ms", us / 1000);
}

/// One variable: how it is read into a Config and shown from one.
struct Row {
  std::string_view name;
  std::string_view expected;
  std::string_view meaning;
  std::function<void(Config&, std::string_view)> read;
  std::function<std::string(const Config&)> show;
};

/// Rows of one member each: `of` is a pointer to it, or a function that gives it, of a Config that is const or not.
template <class Of>
Row text_row(std::string_view name, std::string_view expected, std::string_view meaning, Of of) {
  return {name, expected, meaning,
          [of](Config& c, std::string_view v) {
            if (v.empty()) reject();
            std::invoke(of, c) = v;
          },
          [of](const Config& c) { return std::string(std::invoke(of, c)); }};
}

template <class Of>
Row switch_row(std::string_view name, std::string_view meaning, Of of) {
  return {name, "0 or 1", meaning,
          [of](Config& c, std::string_view v) {
            if (v != "0" && v != "1") reject();
            std::invoke(of, c) = v == "1";
          },
          [of](const Config& c) { return std::string(std::invoke(of, c) ? "1" : "0"); }};
}

/// A path in which "%h" stands for the host's name, "%p" for the process and "%%" for '%'.
Row pattern_row(std::string_view name, std::string_view meaning, std::string Config::*member) {
  return {name, "a file name, in which %h is the host, %p the process and %% a percent sign", meaning,
          [member](Config& c, std::string_view v) {
            if (v.empty()) reject();
            for (std::size_t i = 0; i < v.size(); ++i) {
              if (v[i] != '%') continue;
              if (++i == v.size() || std::string_view("hp%").find(v[i]) == std::string_view::npos) reject();
            }
            c.*member = v;
          },
          [member](const Config& c) { return c.*member; }};
}

Row list_row(std::string_view name, std::string_view expected, std::string_view meaning,
             std::vector<std::string> Config::*member) {
  return {name, expected, meaning,
          [member](Config& c, std::string_view v) {
            c.*member = split_list(v);
            if ((c.*member).empty()) reject();
          },
          [member](const Config& c) { return fmt::format("{}", fmt::join(c.*member, ",")); }};
}

/// A variable that others read from the environment, at other times than a Config. It is checked and shown here.
Row row_of_environment(std::string_view name, std::string_view expected, std::string_view meaning,
                       bool (*is_good)(std::string_view)) {
  return {name, expected, meaning,
          [is_good](Config&, std::string_view v) {
            if (!is_good(v)) reject();
          },
          [name](const Config&) {
            const char* const value = std::getenv(std::string(name).c_str());
            return std::string(value == nullptr ? "" : value);
          }};
}

bool is_start_tree(std::string_view text) {
  const auto both = parse_number_pair<int>(text);
  return both && both->first >= 1 && both->second >= 1;
}

bool is_rank_limits(std::string_view text) {
  const auto both = parse_number_pair<int>(text);
  return both && both->first >= 1 && both->first <= both->second;
}

std::vector<Row> make_rows() {
  return {
      {"SINEW_TIMEOUT", "a duration above 0 with a unit, such as 30s or 5min",
       "how long a wait without a deadline of its own lasts",
       [](Config& c, std::string_view v) {
         c.timeout = parse_duration(v);
         if (c.timeout <= Duration::zero()) reject();
       },
       [](const Config& c) { return format_duration(c.timeout); }},
      list_row("SINEW_TRANSPORTS", "names such as shm,tcp", "use only these transports", &Config::transports),
      list_row("SINEW_TUNE", "rules such as all_reduce:0-4KiB:recursive_doubling", "choices made by the user",
               &Config::tune),
      text_row("SINEW_TUNE_FILE", "a file that sinew-bench tune has written", "measured times that choices go by",
               &Config::tune_file),
      text_row("SINEW_CACHE", "a file name", "where this machine's measured costs are kept", &Config::cache_file),
      {"SINEW_HOST_ID", "printable ASCII characters", "ranks with equal text share a host",
       [](Config& c, std::string_view v) {
         if (v.empty() || !std::ranges::all_of(v, [](char ch) { return ch >= ' ' && ch <= '~'; })) reject();
         c.host_id = v;
       },
       [](const Config& c) { return c.host_id; }},
      text_row("SINEW_NCCL_LIBRARY", "a file name", "the libnccl.so.2 to use, where it shall not be looked for",
               &Config::nccl_library),
      text_row("SINEW_INTERFACE", "interfaces such as eth0 or eth0,eth1",
               "network interfaces that tcp uses, and ofi one of them", &Config::interface),
      {"SINEW_TCP_STREAMS", "a number from 1 to 8",
       "how many data connections tcp makes for each pair of interfaces of two hosts",
       [](Config& c, std::string_view v) {
         if (v.size() != 1 || v[0] < '1' || v[0] > '8') reject();
         c.tcp_streams = v[0] - '0';
       },
       [](const Config& c) { return std::to_string(c.tcp_streams); }},
      text_row("SINEW_OFI_PROVIDER", "a provider of libfabric such as tcp;ofi_rxm", "what ofi uses of libfabric",
               &Config::ofi_provider),
      {"SINEW_PORTS", "a range of 1 to 65535, such as 20000-20100", "ports that tcp and the store listen on",
       [](Config& c, std::string_view v) {
         const std::size_t dash = v.find('-');
         if (dash == std::string_view::npos) reject();
         c.ports = {parse_port(v.substr(0, dash)), parse_port(v.substr(dash + 1))};
         if (c.ports->first > c.ports->second) reject();
       },
       [](const Config& c) { return c.ports ? fmt::format("{}-{}", c.ports->first, c.ports->second) : ""; }},
      text_row("SINEW_SECRET_FILE", "a file name", "the job's shared secret, for jobs of several hosts",
               &Config::secret_file),
      switch_row("SINEW_TLS", "encrypts the job's TCP connections, and wants a certificate at both ends",
                 [](auto& c) -> auto& { return c.tls.wanted; }),
      text_row("SINEW_TLS_CERTIFICATE", "a file name",
               "PEM: this rank's certificate, then those that lead to the authority's",
               [](auto& c) -> auto& { return c.tls.certificate; }),
      text_row("SINEW_TLS_KEY", "a file name", "PEM: the certificate's private key, without a passphrase",
               [](auto& c) -> auto& { return c.tls.key; }),
      text_row("SINEW_TLS_CA", "a file name", "PEM: the authorities whose certificates the job's are",
               [](auto& c) -> auto& { return c.tls.authority; }),
      {"SINEW_RSH", "a command such as ssh -p 2222: words with spaces between, without quotes",
       "how sinew-run starts ranks on other hosts",
       [](Config& c, std::string_view v) {
         if (v.find_first_not_of(" \t") == std::string_view::npos || v.find_first_of("'\"") != std::string_view::npos)
           reject();
         c.rsh = v;
       },
       [](const Config& c) { return c.rsh; }},
      text_row("SINEW_TRACE", "a folder", "log every rank's calls and their times there", &Config::trace_dir),
      switch_row("SINEW_STATS", "times calls, for Communicator::stats(); SINEW_TRACE does, too", &Config::time_calls),
      pattern_row("SINEW_METRICS_FILE", "where one rank of each host writes its ranks' metrics, as OpenMetrics text",
                  &Config::metrics_file),
      pattern_row("SINEW_METRICS_SOCKET", "Unix socket at which one rank of each host answers GET /metrics",
                  &Config::metrics_socket),
      switch_row("SINEW_PYTHON_SITES", "names each call from Python by its line, not only calls that wait for 200 ms",
                 &Config::python_sites),
      {"SINEW_LOG", "trace, debug, info, warning, error or off", "which log lines appear",
       [](Config& c, std::string_view v) {
         for (const std::string_view level : {"trace", "debug", "info", "warning", "error", "off"}) {
           if (v == level) c.log_level = v;
         }
         if (c.log_level.empty()) reject();
       },
       [](const Config& c) { return c.log_level; }},
      switch_row("SINEW_VERIFY", "rank 0 proves each plan of up to 64 ranks before its first run",
                 &Config::verify_plans),
      list_row("SINEW_TRANSPORT_PATH", "folders separated by commas", "where further transport modules are looked for",
               &Config::transport_path),
      text_row("SINEW_FAULTS", "a transport and faults, such as tcp,drop@3",
               "what the conformance library's transport 'faulty' does to messages, and whose", &Config::faults),
      {"SINEW_ALONE", "0 or 1", "a world of one, whatever a launcher's variables say",
       [](Config&, std::string_view v) {
         if (v != "0" && v != "1") reject();
       },
       [](const Config&) {
         const char* asked = std::getenv("SINEW_ALONE");
         return std::string(asked == nullptr ? "0" : asked);
       }},
      row_of_environment("SINEW_JOB", "any text", "set by sinew-run: names the job on this host",
                         [](std::string_view) { return true; }),
      row_of_environment("SINEW_START_TREE", "FAN_OUT:RANKS, two whole numbers of 1 to 2147483647, such as 16:257",
                         "jobs of so many ranks start over a tree of hosts; a host has at most so many hosts below it",
                         is_start_tree),
      row_of_environment("SINEW_ELASTIC", "MIN:MAX in ranks, 1 to 2147483647 and MIN not above MAX, such as 2:8",
                         "set by sinew-run: the job gains and loses ranks", is_rank_limits),
  };
}

const std::vector<Row>& rows() {
  static constinit MadeOnce<std::vector<Row>> table;
  return table.get(make_rows);
}

/// Errors: InvalidArgument that shows the value and what was expected.
void read_value(const Row& row, Config& config, std::string_view value) {
  try {
    row.read(config, value);
  } catch (const Error&) {
    throw Error(Code::InvalidArgument, fmt::format("{}={}: expected {}", row.name, shown_value(value), row.expected));
  }
}

std::string known_names() {
  std::vector<std::string_view> names;
  for (const Row& r : rows()) names.push_back(r.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Counts the characters that must be put in, left out or exchanged to make one text of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// "did you mean SINEW_TIMEOUT? "; empty: no variable has a name that is nearly this one.
std::string suggestion(std::string_view name) {
  constexpr std::size_t kMostSlips = 2;
  const auto slips = [name](const Row& row) { return distance(name, row.name); };
  const auto nearest = std::ranges::min_element(rows(), {}, slips);
  return slips(*nearest) > kMostSlips ? "" : fmt::format("did you mean {}? ", nearest->name);
}

[[noreturn]] void reject_name(std::string_view name) {
  throw Error(Code::InvalidArgument,
              fmt::format("{}: no such variable; {}known are {}", shown_value(name), suggestion(name), known_names()));
}

void require_known_names() {
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (!entry.starts_with("SINEW_")) continue;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (std::ranges::find(rows(), name, &Row::name) == rows().end()) reject_name(name);
  }
}

/// Errors: InvalidArgument. It names the host, because each host of a job may have an environment of its own.
template <class Read>
void read_here(const Read& read) {
  try {
    read();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{} (this host: {})", e.what(), host_name()));
  }
}

}  // namespace

Config Config::from_environment() {
  Config config;
#ifndef NDEBUG
  config.verify_plans = true;
#endif
  read_here([&config] {
    for (const Row& row : rows()) {
      const char* value = std::getenv(std::string(row.name).c_str());
      if (value != nullptr) read_value(row, config, value);
    }
    require_known_names();
  });
  return config;
}

void Config::set(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' is no setting: expected NAME=VALUE, such as SINEW_TIMEOUT=30s", shown_value(entry)));
  const std::string_view name = entry.substr(0, equals);
  if (name == "SINEW_ALONE" || name == "SINEW_JOB" || name == "SINEW_ELASTIC" || name == "SINEW_LOG" ||
      name == "SINEW_START_TREE")
    throw Error(Code::InvalidArgument, fmt::format("{}: only the environment can set this variable", name));
  const auto row = std::ranges::find(rows(), name, &Row::name);
  if (row == rows().end()) reject_name(name);
  read_value(*row, *this, entry.substr(equals + 1));
}

std::vector<ConfigEntry> describe(const Config& config) {
  std::vector<ConfigEntry> entries;
  for (const Row& r : rows()) {
    const bool set = std::getenv(std::string(r.name).c_str()) != nullptr;
    entries.push_back({r.name, r.expected, r.meaning, r.show(config), set});
  }
  return entries;
}

}  // namespace sinew
