#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sinew/core/base/export.hpp>
#include <sinew/core/config.hpp>

struct ssl_ctx_st;

namespace sinew {

/// What this process proves itself with, and whom it believes, on every TCP connection of its jobs: TLS 1.3 alone, a
/// certificate at both ends, both of the same authorities. Names in certificates count for nothing: whoever has one of
/// the job's authorities, and the job's secret, is a rank.
/// Thread: any number of connections may be made from it at once.
class SINEW_API TlsContext {
 public:
  /// Null where TLS is not wanted. Reads the files, and proves what the other side will: the certificate is one of the
  /// authority's, of today, for both ends of a connection, and the key is its own.
  /// Errors: Error{InvalidArgument} naming the variable, the file, and what is wrong with it.
  /// records_per_key: that a connection's end sends before it takes a new key; AES-GCM bears 2^24.5 (RFC 8446, 5.5).
  static std::shared_ptr<const TlsContext> open(const TlsFiles& files, std::uint64_t records_per_key = 1U << 23);

  ssl_ctx_st* get() const noexcept { return context_.get(); }
  std::uint64_t records_per_key() const noexcept { return records_per_key_; }
  /// Random, known to this process alone. It seals the cookies of TlsSession.
  const std::array<std::byte, 32>& cookie_key() const noexcept { return cookie_key_; }

 private:
  struct Release {
    void operator()(ssl_ctx_st* context) const noexcept;
  };

  explicit TlsContext(std::uint64_t records_per_key);
  std::unique_ptr<ssl_ctx_st, Release> context_;
  std::uint64_t records_per_key_;
  std::array<std::byte, 32> cookie_key_;
};

}  // namespace sinew
