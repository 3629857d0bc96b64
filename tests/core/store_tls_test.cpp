// A store under TLS: the same store, for who has a certificate and the secret.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/net/tls_context.hpp>
#include <support/certificates.hpp>
#include <support/scratch_folder.hpp>

#include "served_store.hpp"

namespace sinew::test {
namespace {

using testing::HasSubstr;

class SecuredStore : public testing::Test {
 protected:
  StoreClient::Options asking(const SocketAddress& where, std::shared_ptr<const TlsContext> tls) const {
    StoreClient::Options options;
    options.addresses = {where};
    options.secret = served.secret;
    options.instance = served.instance;
    options.tls = std::move(tls);
    options.timeout = kLong;
    return options;
  }
  std::string refusal(const StoreClient::Options& options) const {
    const Error e = error_of([&] { StoreClient(options, Deadline::after(kLong)); });
    EXPECT_EQ(e.code(), Code::Mismatch);
    return e.what();
  }

  ScratchFolder folder;
  Authority authority{folder / "", "job"};
  Served served{true, authority.issue("server")};
};

TEST_F(SecuredStore, KeepsWhatItIsGiven_LongValuesToo) {
  StoreClient client(asking(served.address, TlsContext::open(authority.issue("client"))), Deadline::after(kLong));
  const Bytes value(3'000'000, std::byte{5});
  client.set("long", value);
  EXPECT_EQ(client.get("long"), value);
  EXPECT_EQ(client.add("count", 3), 3);
}

TEST_F(SecuredStore, SaysWhichSideHasNoTls) {
  EXPECT_THAT(refusal(asking(served.address, nullptr)), HasSubstr("the listener speaks TLS: SINEW_TLS=1 is set there"));
  const Served plain(true);
  StoreClient::Options options = asking(plain.address, TlsContext::open(authority.issue("client")));
  options.secret = plain.secret;
  options.instance = plain.instance;
  EXPECT_THAT(refusal(options), HasSubstr("does not speak TLS 1.3, and SINEW_TLS=1 here"));
}

TEST_F(SecuredStore, RefusesAStranger) {
  const Authority stranger(folder / "", "stranger");
  EXPECT_THAT(refusal(asking(served.address, TlsContext::open(stranger.issue("client")))),
              HasSubstr("the certificate of the other side is refused"));
}

}  // namespace
}  // namespace sinew::test
