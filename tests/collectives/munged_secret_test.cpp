// A job's secret that MUNGE carries, by tests/fakes/fake_munge.cpp.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/collectives/launch/munged_secret.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// An environment variable while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class MungedSecret : public testing::Test {
 protected:
  MungedSecret() {
    // A library of this name that is loaded already is the one that dlopen finds.
    EXPECT_NE(::dlopen(FAKE_MUNGE, RTLD_NOW), nullptr) << ::dlerror();
    munge = std::make_shared<const Munge>();
  }
  std::vector<SocketAddress> addresses() const {
    return {SocketAddress::parse("127.0.0.1:0").with_port(port->number())};
  }
  std::string refusal(const std::string& job) const {
    try {
      ask_for_secret(addresses(), *munge, job, config);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Mismatch) << e.what();
      return e.what();
    }
    return "no refusal";
  }

  const ScratchFolder folder;
  const Variable cluster{"FAKE_MUNGE_FOLDER", folder / ""};
  std::shared_ptr<const Munge> munge;
  std::shared_ptr<ListeningPort> port = port_of_process({});
  Config config = Config::from_environment();
  const Bytes secret = random_secret();
};

TEST_F(MungedSecret, ReachesEachRank_InACredentialOfItsOwn) {
  const SecretOffer offer(port, munge, "29500", secret);
  for (int rank = 1; rank < 5; ++rank) {
    EXPECT_EQ(ask_for_secret(addresses(), *munge, "29500", config), secret) << "a credential opens once on a host";
  }
}

TEST_F(MungedSecret, IsOfOneJob) {
  const SecretOffer a(port, munge, "29500-a", secret);
  const Bytes other = random_secret();
  std::optional<SecretOffer> b(std::in_place, port, munge, "29500-b", other);
  EXPECT_EQ(ask_for_secret(addresses(), *munge, "29500-b", config), other);
  EXPECT_EQ(ask_for_secret(addresses(), *munge, "29500-a", config), secret);
  EXPECT_THAT(refusal("29500-c"), HasSubstr("does not know the job's secret"));
  b->end();
  EXPECT_THAT(refusal("29500-b"), HasSubstr("does not know the job's secret")) << "the offer has ended";
}

TEST_F(MungedSecret, IsNotOpenedByAnotherUser) {
  const SecretOffer offer(port, munge, "29500", secret);
  const Variable other("FAKE_MUNGE_USER", std::to_string(::geteuid() + 1));
  EXPECT_THAT(refusal("29500"), AllOf(HasSubstr("127.0.0.1:"), HasSubstr("Unauthorized credential decode")));
}

TEST_F(MungedSecret, IsNotTakenFromAnotherUser) {
  std::ofstream(folder / "sealed-by-another") << ::geteuid() + 1 << ' ' << ::geteuid() << "\nplanted";
  try {
    munge->open("MUNGE:sealed-by-another:");
    FAIL() << "the credential was taken";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("has sealed the secret, not this user"));
  }
}

TEST_F(MungedSecret, IsNotOpened_WhereTheHostHasAnotherKey) {
  const std::string credential = munge->seal(secret);
  EXPECT_EQ(munge->open(credential), secret);
  const ScratchFolder elsewhere;
  const Variable other("FAKE_MUNGE_FOLDER", elsewhere / "");
  EXPECT_THROW(munge->open(credential), Error);
}

TEST_F(MungedSecret, CannotTravel_WhereNoMungedAnswers) {
  ::unsetenv("FAKE_MUNGE_FOLDER");
  try {
    const Munge none;
    FAIL() << "MUNGE is said to work";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_THAT(e.what(), HasSubstr("MUNGE: sealing a secret: Socket communication error"));
  }
}

}  // namespace
}  // namespace sinew::test
