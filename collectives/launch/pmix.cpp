#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pmix.h>

#include <sinew/collectives/launch/bootstrap_record.hpp>
#include <sinew/collectives/launch/lookup.hpp>
#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

/// The functions of libpmix that are used here. Only processes that a PMIx server has started load the library.
struct Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Error_string) error_string;

  Library() {
    void* handle = load();
    find(handle, "PMIx_Init", init);
    find(handle, "PMIx_Finalize", finalize);
    find(handle, "PMIx_Put", put);
    find(handle, "PMIx_Commit", commit);
    find(handle, "PMIx_Get", get);
    find(handle, "PMIx_Get_nb", get_nb);
    find(handle, "PMIx_Error_string", error_string);
  }

  void require(pmix_status_t status, std::string_view what) const {
    if (status == PMIX_SUCCESS) return;
    throw Error(Code::Unavailable, fmt::format("PMIx: {}: {}", what, error_string(status)));
  }

 private:
  /// A launcher's own library speaks its server's version of the protocol, so it comes before the system's: PRRTE tells
  /// where it is. Two libraries in one process would be two clients, so the one that MPI has loaded comes first.
  static void* load() {
    constexpr int kGlobal = RTLD_NOW | RTLD_GLOBAL;  // libpmix's own plug-ins look their symbols up in it
    if (void* loaded = ::dlopen(kLibrary, kGlobal | RTLD_NOLOAD)) return loaded;
    std::vector<std::string> names;
    const std::string prefix = process_environment()("PMIX_PREFIX").value_or("");
    for (const char* folder : {"lib", "lib64", "lib/openmpi"}) {
      const std::string name = fmt::format("{}/{}/{}", prefix, folder, kLibrary);
      if (!prefix.empty() && ::access(name.c_str(), F_OK) == 0) names.push_back(name);
    }
    names.emplace_back(kLibrary);
    std::string why;
    for (const std::string& name : names) {
      if (void* handle = ::dlopen(name.c_str(), kGlobal)) return handle;
      why += fmt::format("{}{}", why.empty() ? "" : "; ", ::dlerror());
    }
    throw Error(Code::Unavailable,
                fmt::format("PMIX_RANK is set, but {} cannot be loaded{}: {}; on Debian: apt-get install libpmix2",
                            kLibrary, prefix.empty() ? "" : ", from PMIX_PREFIX=" + prefix + " neither", why));
  }

  template <class F>
  static void find(void* handle, const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(handle, name));
    if (function == nullptr) throw Error(Code::Unavailable, fmt::format("{} has no {}", kLibrary, name));
  }
};

/// This process's connection to its PMIx server, until the process exits: a launcher takes a client that ends without
/// finalizing for a failure, and one that finalizes early for gone. libpmix counts the initialisations of MPI as well.
struct Session {
  std::unique_ptr<Library> library;
  pmix_proc_t self{};
  pid_t owner = 0;
};

Session& session() {
  static auto* s = new Session;  // the exit handler may run after static destructors
  return *s;
}

void finalize_at_exit() {
  Session& s = session();
  if (s.library && s.owner == ::getpid()) s.library->finalize(nullptr, 0);
}

void open(Session& s) {
  if (s.library) return;
  auto library = std::make_unique<Library>();
  library->require(library->init(&s.self, nullptr, 0), "reaching the launcher's server");
  s.library = std::move(library);
  s.owner = ::getpid();
  std::atexit(&finalize_at_exit);
}

/// A number that the server tells every process of the job; nullopt if it does not.
std::optional<int> job_number(const Session& s, const char* key, bool of_process) {
  pmix_proc_t who = s.self;
  if (!of_process) who.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = nullptr;
  if (s.library->get(&who, key, nullptr, 0, &value) != PMIX_SUCCESS || value == nullptr) return std::nullopt;
  std::optional<int> number;
  if (value->type == PMIX_UINT32) number = static_cast<int>(value->data.uint32);
  if (value->type == PMIX_UINT16) number = static_cast<int>(value->data.uint16);
  std::free(value);
  return number;
}

void put(const Session& s, const std::string& key, Bytes record) {
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = reinterpret_cast<char*>(record.data());
  value.data.bo.size = record.size();
  s.library->require(s.library->put(PMIX_GLOBAL, key.c_str(), &value), "publishing where rank 0's store is");
  s.library->require(s.library->commit(), "publishing where rank 0's store is");
}

/// A question that may outlive whoever asked it: libpmix answers from a thread of its own.
struct PmixQuestion {
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;
  pmix_status_t status = PMIX_SUCCESS;
  Bytes bytes;
};

void take_answer(pmix_status_t status, pmix_value_t* value, void* data) {
  const std::unique_ptr<std::shared_ptr<PmixQuestion>> held(static_cast<std::shared_ptr<PmixQuestion>*>(data));
  PmixQuestion& q = **held;
  const std::scoped_lock lock(q.mutex);
  q.status = status;
  if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    const auto* first = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    q.bytes.assign(first, first + value->data.bo.size);
  }
  q.done = true;
  q.answered.notify_all();
}

/// FromCache: the server may answer with what it has from an earlier question.
enum class Ask : std::uint8_t { FromCache, Anew };

/// One question to the server; nullopt if it has no such thing (yet).
std::optional<Bytes> ask_about_rank_0(const Session& s, const std::string& key, Ask how, Deadline deadline) {
  pmix_proc_t root = s.self;
  root.rank = 0;
  const auto question = std::make_shared<PmixQuestion>();
  auto held = std::make_unique<std::shared_ptr<PmixQuestion>>(question);
  pmix_info_t anew{};
  std::strncpy(anew.key, PMIX_GET_REFRESH_CACHE, PMIX_MAX_KEYLEN);
  anew.value.type = PMIX_BOOL;
  anew.value.data.flag = true;
  const std::size_t directives = how == Ask::Anew ? 1 : 0;
  const pmix_status_t asked =
      s.library->get_nb(&root, key.c_str(), directives > 0 ? &anew : nullptr, directives, &take_answer, held.get());
  if (asked == PMIX_ERR_NOT_FOUND) return std::nullopt;
  s.library->require(asked, "asking for rank 0's store");
  [[maybe_unused]] const auto* with_callback = held.release();
  std::unique_lock lock(question->mutex);
  while (!question->done && !deadline.passed()) {
    question->answered.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(1000)));
  }
  if (!question->done || question->status == PMIX_ERR_NOT_FOUND) return std::nullopt;
  s.library->require(question->status, "asking for rank 0's store");
  return question->bytes;
}

/// Waits until rank 0 has put it: some servers hold the question back until then, others say at once that there is
/// none.
Bytes get_of_rank_0(const Session& s, const std::string& key, Deadline deadline) {
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    if (const auto record = ask_about_rank_0(s, key, Ask::FromCache, deadline)) return *record;
    if (deadline.passed()) {
      throw Error(Code::Timeout,
                  fmt::format("PMIx job {}: rank 0 did not say where its store is before the deadline", s.self.nspace),
                  0);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

/// Looks for a newer record after the address in the last one was wrong.
class NewerRecord {
 public:
  NewerRecord(const Session& session, std::string key, Bytes known)
      : session_(session), key_(std::move(key)), known_(std::move(known)) {}

  /// Asks the server, though not more often than it should be asked. Returns true if it has another record.
  bool is_there() {
    if (Clock::now() < next_) return false;
    next_ = Clock::now() + pause_;
    pause_ = std::min<Duration>(pause_ * 2, kLongestPause);
    auto record = ask_about_rank_0(session_, key_, Ask::Anew, Deadline::after(kPatience));
    if (!record || *record == known_) return false;
    newer_ = std::move(record);
    return true;
  }
  /// As is_there(), until the deadline.
  bool comes_before(Deadline deadline) {
    while (!newer_ && !is_there() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return newer_.has_value();
  }
  const std::optional<Bytes>& get() const noexcept { return newer_; }

 private:
  static constexpr Duration kLongestPause = std::chrono::milliseconds(500);
  static constexpr Duration kPatience = std::chrono::seconds(1);

  const Session& session_;
  const std::string key_;
  const Bytes known_;
  std::optional<Bytes> newer_;
  Duration pause_ = std::chrono::milliseconds(50);
  Clock::time_point next_{};
};

/// Joins the store that rank 0's record names. An earlier program of the same tasks may have left the record. Then
/// nobody listens at the address in it, or another program that refuses this rank.
Joined join_by_record(const Session& s, const std::string& key, Bootstrap bootstrap, const Config& config) {
  constexpr auto kDoubt = std::chrono::seconds(2);  // a refusal may also be meant for this rank
  Bytes record = get_of_rank_0(s, key, Deadline::after(config.timeout));
  for (;;) {
    NewerRecord newer(s, key, record);
    bootstrap.may_come = [&newer] { return !newer.is_there(); };
    try {
      const BootstrapRecord said = BootstrapRecord::decode(record);
      if (said.unix_address.empty()) {
        throw Error(Code::Unavailable, "PMIx's task 0 is not RANK 0, so that PMIx does not carry the job's secret");
      }
      follow(said, bootstrap);
      return join(bootstrap, nullptr, config);
    } catch (const Error& e) {
      const bool is_refused = e.code() == Code::Mismatch || e.code() == Code::Unavailable;
      if (!newer.get() && !(is_refused && newer.comes_before(Deadline::after(kDoubt)))) throw;
      record = *newer.get();
    }
  }
}

[[noreturn]] void refuse_ranks(const LaunchVariables& v, const Session& s) {
  throw Error(
      Code::Unavailable,
      fmt::format("PMIX_RANK={} has RANK={}: PMIx carries the job's secret only from task 0 as rank 0; give task "
                  "0 the RANK 0, or set SINEW_SECRET_FILE to a file with the same random bytes on every host",
                  s.self.rank, v.rank));
}

}  // namespace

std::optional<Launch> launch_from_pmix(const LaunchVariables& v, int world, const Config& config) {
  Session& s = session();
  const ProcessLock lock(OfProcess::PmixSession);
  const bool is_beneath = v.kind != LaunchKind::Pmix;  // of ranks that somebody else has numbered
  try {
    open(s);
  } catch (const Error&) {
    if (is_beneath) return std::nullopt;
    throw;
  }
  const auto ranks = job_number(s, PMIX_JOB_SIZE, false);
  if (is_beneath && ranks != v.ranks) return std::nullopt;
  if (!ranks) throw Error(Code::Unavailable, "PMIx: the launcher's server does not say how many ranks the job has");
  const int local_ranks = job_number(s, PMIX_LOCAL_SIZE, false).value_or(-1);
  const int local_rank = is_beneath ? v.local_rank : job_number(s, PMIX_LOCAL_RANK, true).value_or(-1);
  Bootstrap bootstrap{
      is_beneath ? v.rank : static_cast<int>(s.self.rank), *ranks, {}, {}, fmt::format("world {}", world)};
  const std::string key = fmt::format("sinew.{}", world);
  Joined joined;
  if (s.self.rank == 0) {
    if (bootstrap.rank != 0) {
      put(s, key, BootstrapRecord{}.encode());  // the other tasks ask for this one
      refuse_ranks(v, s);
    }
    const SocketAddress place = user_socket(fmt::format("{}-{:016x}", s.self.nspace, random_id()));
    Hosting hosting = host_bootstrap(place, bootstrap.ranks, local_ranks != bootstrap.ranks, config);
    put(s, key, hosting.record.encode());
    bootstrap.addresses = {place};
    joined = join(bootstrap, std::move(hosting.store), config);
  } else {
    if (bootstrap.rank == 0) refuse_ranks(v, s);
    joined = join_by_record(s, key, std::move(bootstrap), config);
  }
  return Launch{v.kind,
                std::move(joined.exchange),
                joined.store->secret(),
                s.self.nspace,
                local_rank,
                is_beneath ? v.local_ranks : local_ranks,
                joined.store};
}

}  // namespace sinew
