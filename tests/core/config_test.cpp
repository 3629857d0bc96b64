#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>

namespace sinew {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A variable set while this lives; what was there before comes back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string refusal(const char* name, const char* value) {
  const Variable v(name, value);
  try {
    static_cast<void>(Config::from_environment());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "accepted";
}

TEST(Config, HasItsDefaults_WhenNothingIsSet) {
  const Config c = Config::from_environment();
  EXPECT_EQ(c.timeout, 5min);
  EXPECT_TRUE(c.transports.empty());
  EXPECT_EQ(c.tcp_streams, 1);
  EXPECT_FALSE(c.ports.has_value());
}

TEST(Config, Takes_EveryVariable) {
  const Variable v[] = {{"SINEW_TIMEOUT", "1500us"},
                        {"SINEW_TRANSPORTS", "shm,,tcp"},
                        {"SINEW_TUNE", "a,b"},
                        {"SINEW_TUNE_FILE", "/tmp/tuned"},
                        {"SINEW_CACHE", "/tmp/x"},
                        {"SINEW_HOST_ID", "left"},
                        {"SINEW_NCCL_LIBRARY", "/n/libnccl.so.2"},
                        {"SINEW_INTERFACE", "eth7"},
                        {"SINEW_TCP_STREAMS", "4"},
                        {"SINEW_PORTS", "20000-20100"},
                        {"SINEW_SECRET_FILE", "/tmp/s"},
                        {"SINEW_TRACE", "/tmp/t"},
                        {"SINEW_STATS", "1"},
                        {"SINEW_PYTHON_SITES", "1"},
                        {"SINEW_LOG", "debug"},
                        {"SINEW_VERIFY", "1"},
                        {"SINEW_TRANSPORT_PATH", "/a,/b"},
                        {"SINEW_ALONE", "1"},
                        {"SINEW_JOB", "j"}};
  const Config c = Config::from_environment();
  EXPECT_EQ(c.timeout, 1500us);
  EXPECT_THAT(c.transports, ElementsAre("shm", "tcp"));
  EXPECT_THAT(c.tune, ElementsAre("a", "b"));
  EXPECT_EQ(c.tune_file, "/tmp/tuned");
  EXPECT_EQ(c.cache_file, "/tmp/x");
  EXPECT_EQ(c.host_id, "left");
  EXPECT_EQ(c.nccl_library, "/n/libnccl.so.2");
  EXPECT_EQ(c.interface, "eth7");
  EXPECT_EQ(c.tcp_streams, 4);
  ASSERT_TRUE(c.ports.has_value());
  EXPECT_EQ(*c.ports, (std::pair<std::uint16_t, std::uint16_t>{20000, 20100}));
  EXPECT_EQ(c.secret_file, "/tmp/s");
  EXPECT_EQ(c.trace_dir, "/tmp/t");
  EXPECT_EQ(c.log_level, "debug");
  EXPECT_TRUE(c.time_calls);
  EXPECT_TRUE(c.python_sites);
  EXPECT_TRUE(c.verify_plans);
  EXPECT_THAT(c.transport_path, ElementsAre("/a", "/b"));
}

TEST(Config, SaysWhatIsExpected_WhenAValueIsBad) {
  const std::string here = " (this host: " + host_name() + ")";
  EXPECT_EQ(refusal("SINEW_TIMEOUT", "5x"),
            "SINEW_TIMEOUT=5x: expected a duration above 0 with a unit, such as 30s or 5min" + here);
  EXPECT_EQ(refusal("SINEW_PORTS", "70000-70001"),
            "SINEW_PORTS=70000-70001: expected a range of 1 to 65535, such as 20000-20100" + here);
  for (const char* ports : {"", "1", "-", "2-1", "0-5", "1-", "1-2-3", "a-b", "1-99999999999"}) {
    EXPECT_THAT(refusal("SINEW_PORTS", ports), HasSubstr("expected a range")) << ports;
  }
  for (const char* streams : {"", "0", "9", "12", "-1", "x"}) {
    EXPECT_THAT(refusal("SINEW_TCP_STREAMS", streams), HasSubstr("expected a number from 1 to 8")) << streams;
  }
  EXPECT_THAT(refusal("SINEW_LOG", "loud"), HasSubstr("expected trace, debug"));
  EXPECT_THAT(refusal("SINEW_VERIFY", "yes"), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(refusal("SINEW_STATS", "on"), HasSubstr("expected 0 or 1"));
  EXPECT_THAT(refusal("SINEW_ALONE", "yes"), HasSubstr("SINEW_ALONE=yes: expected 0 or 1"));
  EXPECT_THAT(refusal("SINEW_TRANSPORTS", ","), HasSubstr("expected names such as"));
  EXPECT_THAT(refusal("SINEW_CACHE", ""), HasSubstr("expected a file name"));
  for (const char* host : {"", "tab\there", "caf\xe9"})
    EXPECT_THAT(refusal("SINEW_HOST_ID", host), HasSubstr("expected printable ASCII characters")) << host;
  for (const char* tree : {"foo", "16", "16:", ":257", "0:257", "16:0", "16:257:1", "16:99999999999"}) {
    EXPECT_THAT(refusal("SINEW_START_TREE", tree),
                HasSubstr("expected FAN_OUT:RANKS, two whole numbers of 1 to 2147483647, such as 16:257"))
        << tree;
  }
  for (const char* limits : {"9:1", "foo", "0:2", "2:"})
    EXPECT_THAT(refusal("SINEW_ELASTIC", limits), HasSubstr("expected MIN:MAX in ranks, 1 to 2147483647")) << limits;
  for (const char* shell : {"", " ", "ssh -o 'A B'", "ssh \"-q\""})
    EXPECT_THAT(refusal("SINEW_RSH", shell), HasSubstr("words with spaces between, without quotes")) << shell;
}

TEST(Config, ShowsTheBeginningOfALongValue) {
  const std::string text = std::string(59, 'x') + "\u00e9" + std::string(1000, 'y');
  EXPECT_THAT(refusal("SINEW_TIMEOUT", text.c_str()),
              HasSubstr("SINEW_TIMEOUT=" + text.substr(0, 59) + ".. (1061 bytes): expected"));
}

TEST(Config, NamesTheKnownOnes_WhenAVariableIsUnknown) {
  const std::string message = refusal("SINEW_TIMOUT", "5s");
  EXPECT_THAT(message,
              HasSubstr("SINEW_TIMOUT: no such variable; did you mean SINEW_TIMEOUT? known are SINEW_TIMEOUT, "));
  EXPECT_THAT(message, HasSubstr(" (this host: " + host_name() + ")"));
  EXPECT_THAT(refusal("SINEW_TLS_KEYS", "k"), HasSubstr("did you mean SINEW_TLS_KEY? "));
  EXPECT_THAT(refusal("SINEW_NONSENSE", "5s"),
              HasSubstr("SINEW_NONSENSE: no such variable; known are SINEW_TIMEOUT, "));
}

TEST(Config, IgnoresVariables_OfOthers) {
  const Variable v("SINEWY", "x");
  EXPECT_NO_THROW(static_cast<void>(Config::from_environment()));
}

std::string refused_entry(const char* entry) {
  Config config;
  try {
    config.set(entry);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument);
    return e.what();
  }
  return "accepted";
}

TEST(Config, TakesAnEntry_AsTheEnvironmentWouldHoldIt) {
  Config config;
  config.set("SINEW_TIMEOUT=1500ms");
  config.set("SINEW_TUNE=all_reduce:0-:ring@tcp");
  EXPECT_EQ(config.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(config.tune, std::vector<std::string>{"all_reduce:0-:ring@tcp"});
}

TEST(Config, RefusesAnEntry_ThatTheEnvironmentCouldNotHold) {
  EXPECT_THAT(refused_entry("SINEW_TIMEOUT=5x"), HasSubstr("SINEW_TIMEOUT=5x: expected a duration"));
  EXPECT_THAT(refused_entry("SINEW_TIMOUT=5s"),
              HasSubstr("SINEW_TIMOUT: no such variable; did you mean SINEW_TIMEOUT? known are"));
  EXPECT_THAT(refused_entry("SINEW_TIMEOUT"), HasSubstr("'SINEW_TIMEOUT' is no setting: expected NAME=VALUE"));
  EXPECT_THAT(refused_entry("SINEW_ALONE=1"), HasSubstr("only the environment can set this variable"));
}

TEST(Describe, ShowsWhatIsInEffect_AsItWouldBeWritten) {
  const Variable v[] = {{"SINEW_TIMEOUT", "1500us"}, {"SINEW_PORTS", "1-2"}, {"SINEW_TRANSPORTS", "shm,tcp"},
                        {"SINEW_ALONE", "1"},        {"SINEW_JOB", "j"},     {"SINEW_START_TREE", "2:9"},
                        {"SINEW_ELASTIC", "2:8"},    {"SINEW_RSH", "ssh -q"}};
  const auto entries = describe(Config::from_environment());
  const auto entry = [&](std::string_view name) {
    const auto found = std::ranges::find(entries, name, &ConfigEntry::name);
    EXPECT_NE(found, entries.end()) << name;
    return *found;
  };
  EXPECT_EQ(entry("SINEW_TIMEOUT").value, "1500us");
  EXPECT_EQ(entry("SINEW_PORTS").value, "1-2");
  EXPECT_EQ(entry("SINEW_ALONE").value, "1");
  EXPECT_EQ(entry("SINEW_JOB").value, "j");
  EXPECT_EQ(entry("SINEW_START_TREE").value, "2:9");
  EXPECT_EQ(entry("SINEW_ELASTIC").value, "2:8");
  EXPECT_EQ(entry("SINEW_RSH").value, "ssh -q");
  EXPECT_EQ(entry("SINEW_TRANSPORTS").value, "shm,tcp");
  EXPECT_TRUE(entry("SINEW_PORTS").set);
  EXPECT_FALSE(entry("SINEW_TRACE").set);
  for (const ConfigEntry& e : entries) EXPECT_FALSE(e.expected.empty() || e.meaning.empty()) << e.name;
}

}  // namespace
}  // namespace sinew
