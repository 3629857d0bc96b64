#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/session_key.hpp>

namespace sinew::ofi {

std::uint64_t session_key(const Bytes& secret, int from_rank, int to_rank, std::uint64_t to_instance) {
  struct Claim {
    char service[16] = "sinew ofi 1";
    std::int32_t from = -1;
    std::int32_t to = -1;
    std::uint64_t instance = 0;
  };
  const Claim claim{.from = from_rank, .to = to_rank, .instance = to_instance};
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), reinterpret_cast<const unsigned char*>(&claim),
           sizeof claim, digest, &bytes) == nullptr) {
    throw Error(Code::System, "ofi: OpenSSL cannot compute HMAC-SHA256");
  }
  std::uint64_t key = 0;
  std::memcpy(&key, digest, sizeof key);
  return key;
}

}  // namespace sinew::ofi
