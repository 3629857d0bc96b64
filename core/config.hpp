#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>

namespace sinew {

/// TLS settings of connections between processes. All files are PEM.
struct TlsFiles {
  bool wanted = false;      ///< SINEW_TLS
  std::string certificate;  ///< SINEW_TLS_CERTIFICATE: this rank's certificate and the intermediate certificates
  std::string key;          ///< SINEW_TLS_KEY: the certificate's private key
  std::string authority;    ///< SINEW_TLS_CA: the authority that signs the certificates of the job
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// Everything that can be set from outside, as values. Read once per World from the SINEW_* variables.
struct Config {
  Duration timeout = std::chrono::minutes(5);  ///< SINEW_TIMEOUT: of every wait that has no deadline of its own
  std::string host_id;                         ///< SINEW_HOST_ID: overrides host identity
  std::vector<std::string> transports;         ///< SINEW_TRANSPORTS: only these, comma-separated; empty: all
  std::vector<std::string> tune;               ///< SINEW_TUNE: rules "collective:MIN-MAX:algorithm[@transport]"
  std::string tune_file;                       ///< SINEW_TUNE_FILE: times that sinew-bench tune has measured
  std::string cache_file;                      ///< SINEW_CACHE: measured cost curves; default in ~/.cache/sinew
  std::vector<std::string> transport_path;     ///< SINEW_TRANSPORT_PATH: folders of further modules
  std::string nccl_library;                    ///< SINEW_NCCL_LIBRARY: libnccl.so.2; empty: looked for
  std::string interface;                       ///< SINEW_INTERFACE: network interface for tcp and ofi
  int tcp_streams = 1;                         ///< SINEW_TCP_STREAMS: data connections of tcp for each rail
  std::string ofi_provider;                    ///< SINEW_OFI_PROVIDER: libfabric's; empty: the best there is
  std::optional<std::pair<std::uint16_t, std::uint16_t>> ports;  ///< SINEW_PORTS=A-B: range to listen in
  std::string secret_file;                                       ///< SINEW_SECRET_FILE
  TlsFiles tls;
  std::string faults;          ///< SINEW_FAULTS: what the conformance library's module "faulty" does
  std::string rsh = "ssh";     ///< SINEW_RSH: command that runs a program on another host
  std::string trace_dir;       ///< SINEW_TRACE
  bool time_calls = false;     ///< SINEW_STATS: for Communicator::stats(); so does a trace
  std::string metrics_file;    ///< SINEW_METRICS_FILE: with %h and %p for the host's name and the process
  std::string metrics_socket;  ///< SINEW_METRICS_SOCKET: likewise
  bool python_sites = false;   ///< SINEW_PYTHON_SITES: each call from Python is named by its line
  std::string log_level;       ///< SINEW_LOG, for the whole process from its start; programs call log::set_level()
  bool verify_plans = false;   ///< SINEW_VERIFY: rank 0 proves each plan before its first run

  /// Errors: Error{InvalidArgument} for a SINEW_* variable that is set but invalid or unknown:
  /// "SINEW_TIMEOUT=5x: expected a duration such as 30s or 5min".
  SINEW_API static Config from_environment();
  /// Sets what a variable sets. `entry` is such as "SINEW_TIMEOUT=30s".
  /// Errors: those of from_environment(). InvalidArgument for SINEW_ALONE, SINEW_ELASTIC, SINEW_JOB, SINEW_LOG and
  ///         SINEW_START_TREE, which count for the whole process and are read from the environment alone.
  SINEW_API void set(std::string_view entry);
};

/// One row per variable, for sinew-info config and the documentation.
struct ConfigEntry {
  std::string_view name;
  std::string_view expected;
  std::string_view meaning;
  std::string value;  ///< in effect
  bool set = false;   ///< by the environment
};
SINEW_API std::vector<ConfigEntry> describe(const Config& config);

/// "8", "4KiB", "64MiB", "1GiB" -> bytes. Errors: Error{InvalidArgument} that shows the forms.
SINEW_API std::uint64_t parse_bytes(std::string_view text);
/// "30s", "500ms", "5min", "2h". Errors: Error{InvalidArgument}.
SINEW_API Duration parse_duration(std::string_view text);
/// 65536 -> "64KiB"; exact multiples only, else the plain number.
SINEW_API std::string format_bytes(std::uint64_t bytes);

}  // namespace sinew
