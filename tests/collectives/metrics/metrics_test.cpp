#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/metrics/metrics_file.hpp>
#include <sinew/collectives/metrics/metrics_socket.hpp>
#include <sinew/collectives/metrics/open_metrics.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>
#include <support/worlds.hpp>

#include "open_metrics_parser.hpp"

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const MetricFamily& family_of(const std::vector<MetricFamily>& all, const std::string& name) {
  const auto at = std::ranges::find(all, name, &MetricFamily::name);
  if (at == all.end()) throw std::runtime_error("no family " + name);
  return *at;
}

/// The value of the sample that has all these labels; "none" if there is none.
std::string value_of(const std::vector<MetricFamily>& all, const std::string& family,
                     const std::map<std::string, std::string>& labels) {
  for (const MetricSample& s : family_of(all, family).samples) {
    const bool has_all = std::ranges::all_of(labels, [&](const auto& l) {
      const auto at = s.labels.find(l.first);
      return at != s.labels.end() && at->second == l.second;
    });
    if (has_all) return s.value;
  }
  return "none";
}

RankMetrics a_rank(std::vector<CountersSeen> counters) {
  return {.host = "a", .rank = 3, .open_calls = 2, .longest_open_s = 1.5, .counters = std::move(counters)};
}

TEST(OpenMetricsText, IsValidForEveryNameAndCount) {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::vector<RankMetrics> ranks{
      a_rank({{"t\"p\\\n", "all_reduce", "shm+tcp", most, most, 1}, {"caf\xe9", "send", "", 0, 0, 7}}),
      {.host = "b", .world = 1, .rank = 0, .is_in_world = false}};
  const auto all = parse_open_metrics(open_metrics_text(ranks));
  EXPECT_EQ(value_of(all, "sinew_calls", {{"communicator", "t\"p\\\n"}, {"transport", "shm+tcp"}, {"rank", "3"}}),
            "18446744073709551615");
  EXPECT_EQ(value_of(all, "sinew_failed_calls", {{"communicator", "caf?"}, {"collective", "send"}}), "7");
  EXPECT_EQ(value_of(all, "sinew_longest_open_call_seconds", {{"host", "a"}}), "1.500");
  EXPECT_EQ(value_of(all, "sinew_rank_up", {{"host", "a"}, {"world", "0"}}), "1");
  EXPECT_EQ(value_of(all, "sinew_rank_up", {{"host", "b"}, {"world", "1"}}), "0");
  EXPECT_EQ(family_of(all, "sinew_call_bytes").unit, "bytes");
}

TEST(OpenMetricsText, IsValidWithoutRanks) {
  EXPECT_EQ(family_of(parse_open_metrics(open_metrics_text({})), "sinew_calls").samples.size(), 0U);
}

TEST(OpenMetricsParser, RefusesWhatTheSpecificationForbids) {
  const std::string head = "# HELP a A.\n# TYPE a counter\n";
  EXPECT_NO_THROW(parse_open_metrics(head + "a_total{b=\"c\"} 1\n# EOF\n"));
  for (const std::string& broken : std::vector<std::string>{
           head + "a_total 1\n", head + "a 1\n# EOF\n", head + "a_total -1\n# EOF\n", head + "a_total x\n# EOF\n",
           head + "a_total{b=\"c\"} 1\na_total{b=\"c\"} 2\n# EOF\n", head + "a_total{b=\"\\x\"} 1\n# EOF\n",
           head + "a_total{b=\"c} 1\n# EOF\n", head + "\n# EOF\n", "a_total 1\n# EOF\n", "# TYPE a counter\n# EOF\n",
           head + "# UNIT a bytes\n# EOF\n", head + "a_total{1b=\"c\"} 1\n# EOF\n",
           head + "a_total 1\n# HELP b B.\n# TYPE b gauge\nb 1\n# HELP a A.\n# EOF\n"})
    EXPECT_THROW(parse_open_metrics(broken), std::runtime_error) << broken;
}

TEST(MetricsFile, IsNeverSeenInPart) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom";
  MetricsFile file(path);
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) file.write(std::string(static_cast<std::size_t>(100'000 + 300 * i), 'x') + "end");
    is_over = true;
  });
  std::size_t seen = 0;
  while (!is_over) {
    const std::string text = content_of(path);
    if (text.empty()) continue;  // before the first
    ASSERT_TRUE(text.ends_with("xend")) << text.size();
    ++seen;
  }
  writer.join();
  EXPECT_TRUE(content_of(path).ends_with("xend"));
  EXPECT_GT(seen, 0U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "."), {}), 1);  // nothing beside it
}

TEST(MetricsFile, WarnsOnceWithPathAndReason_WhereItCannotBeWritten) {
  const ScratchFolder folder;
  const std::string path = folder / "absent/sinew.prom";
  ExpectLog warning(log::Level::Warning, "SINEW_METRICS_FILE=");
  MetricsFile file(path);
  for (int i = 0; i < 3; ++i) file.write("text");
  ASSERT_EQ(warning.lines().size(), 1U);
  EXPECT_THAT(warning.lines().front(), AllOf(HasSubstr(path), HasSubstr("No such file or directory")));
}

TEST(MetricsFile, IsWrittenAgain_OnceThereIsRoom) {
  const ScratchFolder folder;
  const std::string path = folder / "later/sinew.prom";
  const ExpectLog warning(log::Level::Warning, "SINEW_METRICS_FILE=");
  MetricsFile file(path);
  file.write("first");
  std::filesystem::create_directories(folder / "later");
  file.write("second");
  EXPECT_EQ(content_of(path), "second");
}

TEST(MetricsFile, WarnsOfAnotherWriter) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom";
  MetricsFile one(path), other(path);
  one.write("one");
  one.write("one");
  other.write("other");
  ExpectLog warning(log::Level::Warning, "another process writes it, too");
  one.write("one");
  EXPECT_THAT(warning.lines().front(), HasSubstr(path));
}

/// Returns the answer of an HTTP server at a Unix socket.
std::string ask(const std::string& path, const std::string& request) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return "refused";
  for (const char c : request) {  // each byte alone
    if (::send(socket.get(), &c, 1, MSG_NOSIGNAL) != 1) break;
  }
  std::string answer;
  char room[4096];
  for (ssize_t came = 0; (came = ::recv(socket.get(), room, sizeof room, 0)) > 0;)
    answer.append(room, static_cast<std::size_t>(came));
  return answer;
}

std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

/// A socket on the control thread.
class SocketOnThread {
 public:
  explicit SocketOnThread(const std::string& path, const std::string& text = "text") {
    thread_->run([&] { socket_ = std::make_unique<MetricsSocket>(thread_->loop(), path, [text] { return text; }); });
  }
  ~SocketOnThread() {
    thread_->run([this] { socket_.reset(); });
  }
  SocketOnThread(const SocketOnThread&) = delete;
  SocketOnThread& operator=(const SocketOnThread&) = delete;

 private:
  std::shared_ptr<ControlThread> thread_ = ControlThread::of_process();
  std::unique_ptr<MetricsSocket> socket_;
};

/// Returns the text of the error that the constructor throws; "none" if it throws none.
std::string socket_error(const std::string& path) {
  try {
    const SocketOnThread socket(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

TEST(MetricsSocket, AnswersGetMetrics) {
  const ScratchFolder folder;
  const std::string path = folder / "s";
  const std::string longer(1 << 20, 'x');
  {
    const SocketOnThread socket(path, longer);
    for (int i = 0; i < 20; ++i) {
      const std::string answer = ask(path, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
      EXPECT_THAT(answer.substr(0, 200),
                  AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), HasSubstr("application/openmetrics-text"),
                        HasSubstr("Content-Length: 1048576\r\n")));
      EXPECT_EQ(body_of(answer), longer);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MetricsSocket, RefusesOtherRequests) {
  const ScratchFolder folder;
  const std::string path = folder / "s";
  const SocketOnThread socket(path);
  EXPECT_THAT(ask(path, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404 Not Found"));
  EXPECT_THAT(ask(path, "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(ask(path, "nonsense\r\n\r\n"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(ask(path, "GET /metrics HTTP/1.1\r\n" + std::string(20'000, 'x')), HasSubstr("431"));
  EXPECT_THAT(ask(path, "GET /metrics?a=b HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsSocket, EndsAClientThatSaysNothing_WhileOthersAreAnswered) {
  const ScratchFolder folder;
  const std::string path = folder / "s";
  const SocketOnThread socket(path);
  std::vector<std::thread> silent;
  std::atomic<int> ended{0};
  for (int i = 0; i < 12; ++i)  // more than are served at once
    silent.emplace_back([&] {
      EXPECT_EQ(ask(path, "GET"), "");
      ++ended;
    });
  EXPECT_THAT(ask(path, "GET /metrics HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
  for (std::thread& t : silent) t.join();
  EXPECT_EQ(ended, 12);
}

TEST(MetricsSocket, SaysWhyItCannotListen) {
  const ScratchFolder folder;
  EXPECT_THAT(socket_error(folder / std::string(200, 'x')), HasSubstr("a socket's has at most 107"));
  EXPECT_THAT(socket_error(folder / "absent/s"), HasSubstr("No such file or directory"));
  std::ofstream(folder / "file") << "text";
  EXPECT_THAT(socket_error(folder / "file"), HasSubstr("the path is taken"));
  EXPECT_EQ(content_of(folder / "file"), "text");
  const SocketOnThread socket(folder / "s");
  EXPECT_THAT(socket_error(folder / "s"), HasSubstr("the path is taken"));
  EXPECT_THAT(ask(folder / "s", "GET /metrics HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsSocket, TakesThePlaceOfOneWhoseProcessHasGone) {
  const ScratchFolder folder;
  const std::string path = folder / "s";
  {
    const FileDescriptor left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  const SocketOnThread socket(path);
  EXPECT_THAT(ask(path, "GET /metrics HTTP/1.1\r\n\r\n"), HasSubstr("200 OK"));
}

/// The threads of this process that serve control planes.
std::size_t control_threads() {
  std::size_t found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    found += content_of(task.path() / "comm").starts_with("sinew-control") ? 1 : 0;
  return found;
}

constexpr int kBroadcasts = 40;
constexpr std::size_t kElements = 1000;

/// Makes broadcasts on the World, a sum on one half of it, and a message to the next rank. The library makes no
/// broadcasts of its own.
void use(World& world) {
  Communicator& all = world.communicator();
  std::vector<float> data(kElements, 1);
  for (int i = 0; i < kBroadcasts; ++i) all.broadcast(data, 0).get();
  const int next = (all.rank() + 1) % all.size(), before = (all.rank() + all.size() - 1) % all.size();
  std::vector<float> came(kElements);
  Work receive = all.recv(came, before, 1);
  all.send(data, next, 1).get();
  receive.get();
  Communicator half = all.split(all.rank() % 2, 0, {}, "half");
  half.all_reduce(data).get();
  all.barrier().get();
}

WorldOptions with_metrics(const std::string& transports, const std::string& file, const std::string& socket = "") {
  WorldOptions options = only(transports);
  options.config.metrics_file = file;
  options.config.metrics_socket = socket;
  return options;
}

void expect_counts(const std::vector<MetricFamily>& all, int ranks, const std::string& transport) {
  for (int r = 0; r < ranks; ++r) {
    std::map<std::string, std::string> labels{{"rank", std::to_string(r)}, {"communicator", "world"}};
    labels["collective"] = "broadcast";
    EXPECT_EQ(value_of(all, "sinew_calls", labels), std::to_string(kBroadcasts)) << r;
    EXPECT_EQ(value_of(all, "sinew_call_bytes", labels), std::to_string(kBroadcasts * kElements * sizeof(float))) << r;
    EXPECT_EQ(value_of(all, "sinew_failed_calls", labels), "0") << r;
    labels["collective"] = "send";
    labels["transport"] = transport;
    EXPECT_EQ(value_of(all, "sinew_calls", labels), "1") << r;
    EXPECT_EQ(value_of(all, "sinew_call_bytes", labels), std::to_string(kElements * sizeof(float))) << r;
    EXPECT_EQ(value_of(all, "sinew_calls", {{"rank", std::to_string(r)}, {"communicator", "half"}}), "1") << r;
    EXPECT_NE(value_of(all, "sinew_rank_up", {{"rank", std::to_string(r)}}), "none") << r;
  }
}

TEST(WorldMetrics, CountCallsOfRanksThatAreThreads) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom";
  on_threads(3, with_metrics("inproc", path), use);
  expect_counts(parse_open_metrics(content_of(path)), 3, "inproc");
}

TEST(WorldMetrics, CountCallsOfRanksThatAreProcesses) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom", socket = folder / "s";
  in_processes(4, with_metrics("shm", path, socket), [&](World& world) {
    use(world);
    if (world.rank() == 2) {
      const auto all = parse_open_metrics(body_of(ask(socket, "GET /metrics HTTP/1.1\r\n\r\n")));
      require(value_of(all, "sinew_rank_up", {{"rank", "3"}}) == "1", "rank 3 is up");
      require(value_of(all, "sinew_calls", {{"rank", "1"}, {"collective", "broadcast"}, {"communicator", "world"}}) ==
                  std::to_string(kBroadcasts),
              "rank 1 has made its calls");
    }
    world.communicator().barrier().get();
  });
  const auto all = parse_open_metrics(content_of(path));
  expect_counts(all, 4, "shm");
  EXPECT_EQ(value_of(all, "sinew_rank_up", {{"rank", "0"}}), "0");  // its last word
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST(WorldMetrics, GiveEachWorldOfAProcessALabel) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom";
  on_threads(2, with_metrics("inproc", path), [&](World& first) {
    on_threads(1, with_metrics("inproc", path), [&](World&) {
      const auto shows = [&](const char* world) {
        return std::filesystem::exists(path) && value_of(parse_open_metrics(content_of(path)), "sinew_rank_up",
                                                         {{"rank", "0"}, {"world", world}}) == "1";
      };
      const auto give_up = Deadline::after(std::chrono::seconds(10));
      while (!shows("0") || (!shows("1") && !shows("2"))) {
        require(!give_up.passed(), "the file does not show both Worlds");
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    first.communicator().barrier().get();
  });
}

TEST(WorldMetrics, CountCallsThatFail) {
  const ScratchFolder folder;
  const std::string path = folder / "sinew.prom";
  std::latch failed(1);
  on_threads(2, with_metrics("inproc", path), [&](World& world) {
    std::vector<float> data(4, 1);
    if (world.rank() == 1) {
      EXPECT_THROW(world.communicator().all_reduce(data).get(), Error);
      failed.count_down();
    } else {
      world.communicator().abort("enough");
      failed.wait();
    }
  });
  const auto all = parse_open_metrics(content_of(path));
  EXPECT_EQ(value_of(all, "sinew_failed_calls", {{"rank", "1"}, {"collective", "all_reduce"}}), "1");
}

TEST(WorldMetrics, LeaveAJobAlone_ThatCannotShowThem) {
  const ScratchFolder folder;
  const std::string absent = folder / "absent/file", too_long = folder / std::string(150, 's');
  ExpectLog file(log::Level::Warning, "SINEW_METRICS_FILE=" + absent + ": No such file or directory");
  ExpectLog socket(log::Level::Warning, "SINEW_METRICS_SOCKET=" + too_long + ": a path of");
  on_threads(2, with_metrics("inproc", absent, too_long), use);
  EXPECT_EQ(file.lines().size(), 1U);
  EXPECT_EQ(socket.lines().size(), 1U);
}

TEST(WorldMetrics, NeedNoThreadWhereNobodyAsksForThem) {
  const ScratchFolder folder;
  on_threads(2, only("inproc"), [](World&) { EXPECT_EQ(control_threads(), 0U); });
  on_threads(2, with_metrics("inproc", folder / "sinew.prom"), [](World& world) {
    world.communicator().barrier().get();
    if (world.rank() == 0) EXPECT_EQ(control_threads(), 1U);
    world.communicator().barrier().get();
  });
}

}  // namespace
}  // namespace sinew::test
