#pragma once

#include <memory>

#include <sinew/core/config.hpp>
#include <sinew/core/export.hpp>

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
  static std::shared_ptr<const TlsContext> open(const TlsFiles& files);

  ssl_ctx_st* get() const noexcept { return context_.get(); }

 private:
  struct Release {
    void operator()(ssl_ctx_st* context) const noexcept;
  };

  TlsContext();
  std::unique_ptr<ssl_ctx_st, Release> context_;
};

}  // namespace sinew
