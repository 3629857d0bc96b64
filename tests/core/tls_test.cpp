// What a TlsContext accepts of files, and what two ends of a connection say to each other under TLS.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/net/tls_context.hpp>
#include <support/certificates.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::test {
namespace {

using std::filesystem::perms;
using testing::AllOf;
using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  std::string complaint(const TlsFiles& files) {
    try {
      static_cast<void>(TlsContext::open(files));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::InvalidArgument);
      return error.what();
    }
    return "no complaint";
  }
  std::string written(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    std::filesystem::permissions(folder_ / name, perms::owner_read | perms::owner_write);
    return folder_ / name;
  }

  ScratchFolder folder_;
  Authority authority_{folder_ / "", "job"};
  TlsFiles good_ = authority_.issue("rank");
};

TEST_F(TlsFilesTest, GoodOnesAreTaken_AndNoneAreNoTls) {
  EXPECT_NE(TlsContext::open(good_), nullptr);
  EXPECT_EQ(TlsContext::open({}), nullptr);
}

TEST_F(TlsFilesTest, EachIsWanted_AndNoneIsIgnored) {
  TlsFiles files = good_;
  files.key.clear();
  EXPECT_EQ(complaint(files), "SINEW_TLS=1: expected SINEW_TLS_KEY, a PEM file, too");
  files = good_;
  files.wanted = false;
  EXPECT_THAT(complaint(files), HasSubstr("is set, but SINEW_TLS is not 1: nothing would be encrypted"));
}

TEST_F(TlsFilesTest, AreNamed_WhereTheyCannotBeRead) {
  TlsFiles files = good_;
  files.certificate = "/nowhere/at/all.pem";
  EXPECT_THAT(complaint(files), HasSubstr("SINEW_TLS_CERTIFICATE=/nowhere/at/all.pem: cannot be read (No such file"));
  files = good_;
  files.authority = folder_ / "";
  EXPECT_THAT(complaint(files), AllOf(HasSubstr("SINEW_TLS_CA="), HasSubstr("no regular file")));
  files = good_;
  files.key = written("noise.key", "-----BEGIN PRIVATE KEY-----\nno base64 at all\n-----END PRIVATE KEY-----\n");
  EXPECT_THAT(complaint(files), HasSubstr("holds no private key"));
  files = good_;
  files.certificate = written("empty.pem", "");
  EXPECT_THAT(complaint(files), HasSubstr("holds no certificate"));
  files.certificate = written("noise.pem", "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n");
  EXPECT_THAT(complaint(files), HasSubstr("certificate 1 in it is not to be read"));
  files.certificate = good_.key;
  EXPECT_THAT(complaint(files), HasSubstr("holds no certificate"));
  files.certificate = written("long.pem", std::string((1 << 20) + 1, '\n'));
  EXPECT_THAT(complaint(files), HasSubstr("holds more than 1048576 bytes"));
}

TEST_F(TlsFilesTest, AreRefused_WhereOthersCouldUseThem) {
  std::filesystem::permissions(good_.key, perms::owner_read | perms::group_read);
  EXPECT_THAT(complaint(good_), AllOf(HasSubstr("SINEW_TLS_KEY="), HasSubstr("has mode 0440"), HasSubstr("chmod 600")));
  std::filesystem::permissions(good_.key, perms::owner_read);
  std::filesystem::permissions(good_.authority, perms::owner_read | perms::others_write);
  EXPECT_THAT(complaint(good_), AllOf(HasSubstr("SINEW_TLS_CA="), HasSubstr("only its owner can write it")));
  std::filesystem::permissions(good_.authority, perms::owner_read | perms::others_read);
  EXPECT_EQ(complaint(good_), "no complaint");
}

TEST_F(TlsFilesTest, AreRefused_WhereNoPeerWouldAccept) {
  EXPECT_THAT(complaint(authority_.issue("old", {.from_day = -9, .until_day = -2})),
              AllOf(HasSubstr("SINEW_TLS_CERTIFICATE="), HasSubstr("certificate has expired (CN = old, valid from")));
  EXPECT_THAT(complaint(authority_.issue("early", {.from_day = 2, .until_day = 9})), HasSubstr("is not yet valid"));
  EXPECT_THAT(complaint(authority_.issue("asks", {.usage = "clientAuth"})),
              HasSubstr("from the end that accepts a connection: unsuitable certificate purpose"));
  EXPECT_THAT(complaint(authority_.issue("accepts", {.usage = "serverAuth"})),
              HasSubstr("from the end that opens a connection: unsuitable certificate purpose"));
  EXPECT_EQ(complaint(authority_.issue("both", {.usage = "serverAuth,clientAuth"})), "no complaint");

  const Authority stranger(folder_ / "", "stranger");
  TlsFiles files = good_;
  files.authority = stranger.issue("x").authority;
  EXPECT_THAT(complaint(files), HasSubstr("unable to get local issuer certificate (CN = rank"));
  files = good_;
  files.key = authority_.issue("other").key;
  EXPECT_THAT(complaint(files), AllOf(HasSubstr("SINEW_TLS_KEY="), HasSubstr("is not the key of SINEW_TLS_CERT")));
  EXPECT_THAT(complaint(authority_.issue("locked", {.passphrase = "open sesame"})), HasSubstr("a key without"));
}

TEST_F(TlsFilesTest, AreRefused_WhereNoHandshakeEnds) {
  EXPECT_THAT(complaint(authority_.issue("curve", {.curve = "secp256k1"})),
              HasSubstr("no connection can be made with it"));
}

/// Two sockets joined, each with the files it is given; null: plain.
class Conversation : public TlsFilesTest {
 protected:
  void begin(const TlsFiles& connecting, const TlsFiles& accepting) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    a = Socket(FileDescriptor(ends[0]), Socket::End::Connects, TlsContext::open(connecting));
    b = Socket(FileDescriptor(ends[1]), Socket::End::Accepts, TlsContext::open(accepting));
  }

  /// Both proofs, until neither moves on.
  std::pair<Proof, Proof> prove(std::byte of_a, std::byte of_b) {
    constexpr AuthClaim kClaim{.service = 7};
    asks = Authentication::connector(Bytes(32, of_a), kClaim);
    accepts = Authentication::acceptor(Bytes(32, of_b), kClaim);
    std::pair<Proof, Proof> now;
    for (int turn = 0; turn < 20; ++turn) {
      if (now.first == Proof::Underway) now.first = pump(a, asks);
      if (now.second == Proof::Underway) now.second = pump(b, accepts);
      if (now.second == Proof::Refused) b = Socket();
      if (now.first == Proof::Refused) a = Socket();
    }
    return now;
  }

  Socket a, b;
  Authentication asks = Authentication::connector(Bytes(1), {});
  Authentication accepts = Authentication::acceptor(Bytes(1), {});
};

/// Sends `all` in random pieces, reads it into random pieces: what came.
std::string carried(Socket& from, Socket& to, const std::string& all, unsigned seed) {
  std::mt19937 random(seed);
  const auto size = [&](std::size_t most) { return random() % std::min<std::size_t>(most, 1U << random() % 18) + 1; };
  std::string came;
  std::size_t sent = 0;
  for (bool idle = false; came.size() < all.size() && !idle;) {
    idle = true;
    if (sent < all.size()) {
      std::array<iovec, 3> pieces{};
      std::size_t at = sent;
      for (iovec& p : pieces) {
        const std::size_t bytes = at == all.size() ? 0 : size(all.size() - at);
        p = {const_cast<char*>(all.data()) + at, bytes};
        at += bytes;
      }
      const ssize_t n = from.send(pieces);
      if (n > 0) sent += static_cast<std::size_t>(n);
      idle = n <= 0 && errno != EAGAIN;
    } else {
      from.flush();
      idle = false;
    }
    std::string room(size(200'000), '\0');
    for (bool more = true; more;) {
      const std::array<iovec, 2> halves{iovec{room.data(), room.size() / 2},
                                        iovec{room.data() + room.size() / 2, room.size() - room.size() / 2}};
      const ssize_t n = to.receive(halves);
      if (n > 0) came.append(room.data(), static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EAGAIN)) return came;
      more = n == static_cast<ssize_t>(room.size());
      if (n >= 0) idle = false;
    }
  }
  return came;
}

std::string noise(std::size_t bytes) {
  std::mt19937 random(5);
  std::string s(bytes, '\0');
  std::ranges::generate(s, [&] { return static_cast<char>(random()); });
  return s;
}

TEST_F(Conversation, CarriesWhatASocketCarries_InBothDirections) {
  begin(good_, authority_.issue("peer"));
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  a.read_ahead();
  for (unsigned seed = 0; seed < 12; ++seed) {
    const std::string all = noise(std::array{1U, 16384U, 16385U, 3'000'000U}[seed % 4]);
    EXPECT_EQ(carried(a, b, all, seed), all);
    EXPECT_EQ(carried(b, a, all, seed), all);
  }
}

TEST_F(Conversation, KeysAreRenewedUnderWay) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const auto tls = TlsContext::open(good_, 3);
  a = Socket(FileDescriptor(ends[0]), Socket::End::Connects, tls);
  b = Socket(FileDescriptor(ends[1]), Socket::End::Accepts, tls);
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  b.read_ahead();
  const std::string all = noise(2'000'000);
  EXPECT_EQ(carried(a, b, all, 1), all);
  EXPECT_EQ(carried(b, a, all, 2), all);
}

TEST_F(Conversation, HoldsWhatItHasReadAhead) {
  begin(good_, good_);
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  b.read_ahead();
  const std::string words = "more than one byte";
  for (int i = 0; i < 3; ++i) a.send(std::as_bytes(std::span(words)));
  std::byte first{};
  EXPECT_EQ(b.receive(std::span(&first, 1)), 1);
  EXPECT_TRUE(b.holds());
  std::string rest(100, '\0');
  const iovec room{rest.data(), rest.size()};
  EXPECT_EQ(b.receive(std::span(&room, 1), Socket::From::Held), static_cast<ssize_t>(3 * words.size() - 1));
  EXPECT_FALSE(b.holds());
}

TEST_F(Conversation, EndsWithAWord_AndACutIsAReset) {
  begin(good_, good_);
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  std::byte one{};
  EXPECT_TRUE(a.finish());
  EXPECT_EQ(b.receive(std::span(&one, 1)), 0);
  EXPECT_EQ(b.send(std::span(&one, 1)), 1);  // the other direction goes on
  EXPECT_EQ(a.receive(std::span(&one, 1)), 1);
  b = Socket();
  EXPECT_EQ(a.receive(std::span(&one, 1)), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(Conversation, FinishWaitsForWhatHasNotLeft) {
  begin(good_, good_);
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  const std::string all = noise(1 << 20);
  std::size_t sent = 0;
  while (!a.wants_write()) sent += static_cast<std::size_t>(a.send(std::as_bytes(std::span(all)).subspan(sent)));
  EXPECT_EQ(a.send(std::as_bytes(std::span(all)).subspan(sent)), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(a.finish());
  std::string came;
  std::string room(100'000, '\0');
  for (ssize_t n = 1; n != 0;) {
    n = b.receive(std::as_writable_bytes(std::span(room)));
    ASSERT_TRUE(n >= 0 || errno == EAGAIN);
    if (n > 0) came.append(room.data(), static_cast<std::size_t>(n));
    a.finish();
  }
  EXPECT_EQ(came, all.substr(0, sent));
}

TEST_F(Conversation, NothingOfItIsToBeRead_AndNothingCanBeChanged) {
  begin(good_, good_);
  ASSERT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Proven, Proof::Proven));
  const std::string words = "a gradient that is nobody else's business";
  a.send(std::as_bytes(std::span(words)));
  std::string wire(4096, '\0');
  const ssize_t n = ::recv(b.get(), wire.data(), wire.size(), MSG_PEEK);
  ASSERT_GT(n, static_cast<ssize_t>(words.size()));
  EXPECT_EQ(wire.find(words.substr(0, 8)), std::string::npos);

  ::recv(b.get(), wire.data(), wire.size(), 0);
  wire[20] = static_cast<char>(wire[20] ^ 1);
  ::send(a.get(), wire.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL);
  std::string room(100, '\0');
  EXPECT_EQ(b.receive(std::as_writable_bytes(std::span(room))), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_THAT(b.trouble(), HasSubstr("bad record mac"));
}

TEST_F(Conversation, WrongSecret_IsRefusedUnderTlsToo) {
  begin(good_, good_);
  EXPECT_EQ(prove(std::byte{1}, std::byte{2}).first, Proof::Refused);
  EXPECT_THAT(asks.reason(), HasSubstr("the listener does not know the job's secret"));
}

TEST_F(Conversation, StrangersCertificates_AreRefusedWithTheReason) {
  const Authority stranger(folder_ / "", "stranger");
  begin(stranger.issue("rank"), good_);
  EXPECT_EQ(prove(std::byte{1}, std::byte{1}).first, Proof::Refused);
  EXPECT_THAT(asks.reason(), HasSubstr("the certificate of the other side is refused"));

  TlsFiles half = stranger.issue("rank");  // believes the job's authority, and is not of it
  std::ifstream job(good_.authority), own(half.authority);
  half.authority = written("both.pem", std::string(std::istreambuf_iterator<char>(job), {}) +
                                           std::string(std::istreambuf_iterator<char>(own), {}));
  begin(half, good_);
  const auto [connecting, accepting] = prove(std::byte{1}, std::byte{1});
  EXPECT_EQ(connecting, Proof::Refused);
  EXPECT_EQ(accepting, Proof::Refused);
  EXPECT_THAT(accepts.reason(), HasSubstr("the certificate of the other side is refused"));
  EXPECT_THAT(asks.reason(), HasSubstr("the other side refuses this one's certificate"));
}

TEST_F(Conversation, WhereOneSideSpeaksPlain_BothSaySo) {
  begin({}, good_);
  EXPECT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Refused, Proof::Refused));
  EXPECT_THAT(asks.reason(), HasSubstr("the listener speaks TLS: SINEW_TLS=1 is set there and not here"));
  EXPECT_THAT(accepts.reason(), HasSubstr("does not speak TLS, and SINEW_TLS=1 here"));
  begin(good_, {});
  EXPECT_EQ(prove(std::byte{1}, std::byte{1}), std::pair(Proof::Refused, Proof::Refused));
  EXPECT_THAT(asks.reason(), HasSubstr("does not speak TLS 1.3, and SINEW_TLS=1 here"));
  EXPECT_THAT(accepts.reason(), HasSubstr("the connecting side speaks TLS: SINEW_TLS=1 is set there and not here"));
}

/// Who has a certificate, and not the secret, sits between two ranks that have both, and hands on what they say.
TEST_F(Conversation, ProofsAreNoUseToWhoSitsBetween) {
  begin(good_, good_);
  Socket first_a = std::move(a), between_a = std::move(b);
  begin(good_, good_);
  constexpr AuthClaim kClaim{.service = 7};
  Authentication connecting = Authentication::connector(Bytes(32, std::byte{1}), kClaim);
  Authentication accepting = Authentication::acceptor(Bytes(32, std::byte{1}), kClaim);
  std::vector<std::byte> forth, back;  // on their way
  const auto hand_on = [](Socket& from, Socket& to, std::vector<std::byte>& waiting) {
    std::array<std::byte, 100> some;
    if (const ssize_t n = from.receive(some); n > 0) waiting.insert(waiting.end(), some.begin(), some.begin() + n);
    if (!waiting.empty() && to.send(waiting) > 0) waiting.clear();
  };
  Proof proof = Proof::Underway;
  for (int turn = 0; turn < 20 && proof == Proof::Underway; ++turn) {
    proof = pump(first_a, connecting);
    hand_on(between_a, a, forth);
    pump(b, accepting);
    hand_on(a, between_a, back);
  }
  EXPECT_EQ(proof, Proof::Refused);
  EXPECT_THAT(connecting.reason(), HasSubstr("the listener does not know the job's secret"));
}

/// A TCP connection over loopback: the end that connects, and the one that accepts.
std::pair<FileDescriptor, FileDescriptor> tcp_connection() {
  const Listener listener = listen_on(SocketAddress::parse("127.0.0.1:0"));
  auto [connecting, error] = try_connect({listener.address}, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(error, 0);
  return {std::move(connecting),
          FileDescriptor(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC))};
}

std::string read_from(int socket) {
  std::string bytes(8192, '\0');
  const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

void write_to(int socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

TEST_F(Conversation, ReplayedHellos_AreAnsweredWithACookieAlone) {
  auto [raw_a, from_a] = tcp_connection();
  auto [to_b, raw_b] = tcp_connection();
  const auto context = TlsContext::open(good_);
  a = Socket(std::move(raw_a), Socket::End::Connects, context);
  b = Socket(std::move(raw_b), Socket::End::Accepts, context);
  std::byte word{};
  std::array<std::string, 2> hello;
  std::array<std::string, 2> answer;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LT(a.send(std::span(&word, 1)), 1);
    hello[i] = read_from(from_a.get());
    write_to(to_b.get(), hello[i]);
    EXPECT_LT(b.receive(std::span(&word, 1)), 1);
    answer[i] = read_from(to_b.get());
    write_to(from_a.get(), answer[i]);
  }
  EXPECT_LT(answer[0].size(), 300U);  // a hello with a cookie
  EXPECT_GT(answer[1].size(), 600U);  // a certificate and a signature

  for (const bool both : {true, false}) {
    auto [recorded, accepted] = tcp_connection();
    b = Socket(std::move(accepted), Socket::End::Accepts, context);
    for (std::size_t i = both ? 0 : 1; i < 2; ++i) {
      write_to(recorded.get(), hello[i]);
      EXPECT_EQ(b.receive(std::span(&word, 1)), -1);
      EXPECT_EQ(errno, i == 0 ? EAGAIN : EPROTO);
      EXPECT_LT(read_from(recorded.get()).size(), 300U);
    }
    EXPECT_THAT(b.trouble(), HasSubstr("cookie mismatch"));
  }
}

TEST_F(Conversation, HelloThatComesInPieces_IsReadWhole) {
  begin(good_, good_);
  std::byte word{};
  ASSERT_EQ(a.send(std::span(&word, 1)), -1);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor wire(ends[0]);
  Socket pieces(FileDescriptor(ends[1]), Socket::End::Accepts, TlsContext::open(good_));
  const std::string hello = read_from(b.get());
  for (const char& c : hello) {
    EXPECT_EQ(read_from(wire.get()), "");
    write_to(wire.get(), std::string(1, c));
    EXPECT_EQ(pieces.receive(std::span(&word, 1)), -1);
    EXPECT_EQ(errno, EAGAIN);
  }
  EXPECT_GT(read_from(wire.get()).size(), 60U);
}

TEST_F(Conversation, EndlessHandshake_IsCutOff) {
  begin({}, good_);
  // Records of a ClientHello that goes on: type 22, version 3.1, and pieces of one message of 16 MiB.
  std::string record = {22, 3, 1, 64, 0, 1, '\xff', '\xff', '\xff', 3, 3};
  record.resize(5 + 16384, 'x');
  Proof proof = Proof::Underway;
  accepts = Authentication::acceptor(Bytes(32), {.service = 7});
  for (int turn = 0; turn < 100 && proof == Proof::Underway; ++turn) {
    ::send(a.get(), record.data(), record.size(), MSG_NOSIGNAL);
    proof = pump(b, accepts);
  }
  EXPECT_EQ(proof, Proof::Refused);
}

}  // namespace
}  // namespace sinew::test
