#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <pmix.h>

#include <sinew/collectives/launch/bootstrap_record.hpp>
#include <sinew/collectives/launch/pmix.hpp>
#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

/// What is used of libpmix, looked up when it is needed: a process that no PMIx server started never loads it.
struct Library {
  decltype(&PMIx_Init) init;
  decltype(&PMIx_Finalize) finalize;
  decltype(&PMIx_Put) put;
  decltype(&PMIx_Commit) commit;
  decltype(&PMIx_Get) get;
  decltype(&PMIx_Get_nb) get_nb;
  decltype(&PMIx_Error_string) error_string;

  Library() {
    // Global, because libpmix's own plug-ins look their symbols up in it.
    void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      throw Error(Code::Unavailable,
                  fmt::format("PMIX_RANK is set, but {} cannot be loaded: {}; on Debian: apt-get install libpmix2",
                              kLibrary, ::dlerror()));
    }
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

/// One question to the server; nullopt if it has no such thing (yet).
std::optional<Bytes> ask_about_rank_0(const Session& s, const std::string& key, Deadline deadline) {
  pmix_proc_t root = s.self;
  root.rank = 0;
  const auto question = std::make_shared<PmixQuestion>();
  auto held = std::make_unique<std::shared_ptr<PmixQuestion>>(question);
  const pmix_status_t asked = s.library->get_nb(&root, key.c_str(), nullptr, 0, &take_answer, held.get());
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
    if (const auto record = ask_about_rank_0(s, key, deadline)) return *record;
    if (deadline.passed()) {
      throw Error(Code::Timeout,
                  fmt::format("PMIx job {}: rank 0 did not say where its store is before the deadline", s.self.nspace),
                  0);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

}  // namespace

Launch launch_from_pmix(const Config& config) {
  Session& s = session();
  const ProcessLock lock(OfProcess::PmixSession);
  open(s);
  const auto ranks = job_number(s, PMIX_JOB_SIZE, false);
  if (!ranks) throw Error(Code::Unavailable, "PMIx: the launcher's server does not say how many ranks the job has");
  const int world = next_world();
  const int local_ranks = job_number(s, PMIX_LOCAL_SIZE, false).value_or(-1);
  const int local_rank = job_number(s, PMIX_LOCAL_RANK, true).value_or(-1);
  Bootstrap bootstrap{static_cast<int>(s.self.rank), *ranks, {}, {}, fmt::format("world {}", world)};
  const std::string key = fmt::format("sinew.{}", world);
  Hosting hosting;
  if (bootstrap.rank == 0) {
    const SocketAddress place = user_socket(fmt::format("{}-{:016x}", s.self.nspace, random_id()));
    hosting = host_bootstrap(place, bootstrap.ranks, local_ranks != bootstrap.ranks, config);
    put(s, key, hosting.record.encode());
    bootstrap.addresses = {place};
  } else {
    follow(BootstrapRecord::decode(get_of_rank_0(s, key, Deadline::after(config.timeout))), bootstrap);
  }
  Joined joined = join(bootstrap, std::move(hosting.store), config);
  return {LaunchKind::Pmix, std::move(joined.exchange), joined.store->secret(), s.self.nspace, local_rank, local_ranks,
          joined.store};
}

}  // namespace sinew
