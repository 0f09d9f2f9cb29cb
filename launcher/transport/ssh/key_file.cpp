#include "launcher/transport/ssh/key_file.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/os/timers.h"
#include "launcher/transport/link/byte_stream.h"
#include "launcher/transport/link/remote_process.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view openssh_begin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view openssh_magic{"openssh-key-v1\0", 15};

KeyKind kind_named(std::string_view name) {
  if (name == "ssh-ed25519") return KeyKind::ed25519;
  if (name.starts_with("ecdsa-sha2-nistp") && name.find('@') == name.npos) return KeyKind::ecdsa;
  if (name == "ssh-rsa") return KeyKind::rsa;
  return KeyKind::other;
}

// Fills in what is public, returns what is not.
std::string read_openssh(KeyFile& key, std::string_view text) {
  const std::string bytes = decode_base64(text);
  if (!std::string_view(bytes).starts_with(openssh_magic)) return {};
  WireReader reader(std::string_view(bytes).substr(openssh_magic.size()));
  key.has_passphrase = reader.string() != "none";
  reader.string();  // key derivation
  reader.string();  // its options
  if (reader.number() != 1u) return {};
  key.public_blob = reader.string();
  key.kind = kind_named(WireReader(key.public_blob).string());
  return std::string(reader.string());
}

template <auto release>
struct Release {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Number = std::unique_ptr<BIGNUM, Release<BN_clear_free>>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Key ed25519_key(WireReader& fields) {
  fields.string();  // public
  const std::string_view secret = fields.string();
  constexpr std::size_t seed_bytes = 32;
  if (secret.size() < seed_bytes) return nullptr;
  return Key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(secret), seed_bytes));
}

struct Curve {
  std::string_view name;
  const char* group;
  const char* digest;
};
constexpr Curve curves[] = {{"nistp256", "prime256v1", "SHA256"},
                            {"nistp384", "secp384r1", "SHA384"},
                            {"nistp521", "secp521r1", "SHA512"}};

const Curve* curve_named(std::string_view name) {
  const auto* found = std::ranges::find(curves, name, &Curve::name);
  return found == std::end(curves) ? nullptr : found;
}

Key ecdsa_key(const Curve& curve, std::string_view point, std::string_view secret) {
  const Number scalar(BN_bin2bn(bytes_of(secret), static_cast<int>(secret.size()), nullptr));
  const std::unique_ptr<OSSL_PARAM_BLD, Release<OSSL_PARAM_BLD_free>> build(OSSL_PARAM_BLD_new());
  if (!scalar || !build) return nullptr;
  OSSL_PARAM_BLD_push_utf8_string(build.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.group, 0);
  OSSL_PARAM_BLD_push_octet_string(build.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  OSSL_PARAM_BLD_push_BN(build.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get());
  const std::unique_ptr<OSSL_PARAM, Release<OSSL_PARAM_free>> parameters(
      OSSL_PARAM_BLD_to_param(build.get()));
  const std::unique_ptr<EVP_PKEY_CTX, Release<EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1) return nullptr;
  if (EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, parameters.get()) != 1) {
    return nullptr;
  }
  return Key(key);
}

std::optional<std::string> signature_of(EVP_PKEY* key, const char* digest, std::string_view data) {
  const std::unique_ptr<EVP_MD_CTX, Release<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  std::size_t size = 0;
  if (key == nullptr || !context ||
      EVP_DigestSignInit_ex(context.get(), nullptr, digest, nullptr, nullptr, key, nullptr) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes_of(data), data.size()) != 1) {
    return {};
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes_of(data), data.size()) != 1) {
    return {};
  }
  signature.resize(size);
  return signature;
}

// A number of the ssh wire format: big-endian, with a zero before a set highest bit.
std::string number_of(const BIGNUM* number) {
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
  BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
  if (!bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0x80) != 0) {
    bytes.insert(bytes.begin(), '\0');
  }
  return wire_string(bytes);
}

// OpenSSL writes the two numbers in DER.
std::optional<std::string> ecdsa_wire(const std::string& der) {
  const unsigned char* at = bytes_of(der);
  const std::unique_ptr<ECDSA_SIG, Release<ECDSA_SIG_free>> pair(
      d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size())));
  if (!pair) return {};
  return number_of(ECDSA_SIG_get0_r(pair.get())) + number_of(ECDSA_SIG_get0_s(pair.get()));
}

// The secret section of a file in OpenSSH's format; empty: there is none, or it has a passphrase.
std::string read_key_secrets(const std::string& path) {
  const std::string text = text_of_file(path);
  const std::size_t at = text.find(openssh_begin);
  if (at == text.npos) return {};
  KeyFile key;
  std::string secrets = read_openssh(key, std::string_view(text).substr(at + openssh_begin.size()));
  return key.has_passphrase ? std::string() : secrets;
}

// Numbers of the agent protocol (draft-miller-ssh-agent).
constexpr char request_identities = 11, identities_answer = 12;
constexpr char sign_request = 13, sign_response = 14;

constexpr std::chrono::seconds list_timeout{5};   // a lookup in memory, perhaps over a slow network
constexpr std::chrono::seconds sign_timeout{20};  // a person may have to confirm or touch a key
constexpr std::size_t max_answer_bytes = 256 * 1024;  // the limit of OpenSSH's agent

// An agent whose queue of connections is full does not hold us up, either.
Fd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  path.copy(address.sun_path, path.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected =
      socket &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return connected ? std::move(socket) : Fd();
}

}  // namespace

KeyFile parse_key_file(std::string path, std::string_view text) {
  KeyFile key;
  key.path = std::move(path);
  if (const std::size_t at = text.find(openssh_begin); at != text.npos) {
    read_openssh(key, text.substr(at + openssh_begin.size()));
    return key;
  }
  key.has_passphrase = mentions(text, "ENCRYPTED");
  if (mentions(text, "BEGIN RSA PRIVATE KEY")) key.kind = KeyKind::rsa;
  return key;
}

std::optional<KeyFile> read_key_file(const std::string& path) {
  const std::string text = text_of_file(path);
  return text.empty() ? std::nullopt : std::optional(parse_key_file(path, text));
}

std::optional<std::string> sign_with_key_file(const std::string& path, std::string_view data) {
  const std::string secrets = read_key_secrets(path);
  WireReader fields(secrets);
  const auto check = fields.number();
  if (!check || fields.number() != check) return {};
  const std::string_view type = fields.string();
  if (type == "ssh-ed25519") return signature_of(ed25519_key(fields).get(), nullptr, data);
  if (!type.starts_with("ecdsa-sha2-")) return {};
  const Curve* curve = curve_named(fields.string());
  const std::string_view point = fields.string();
  const std::string_view secret = fields.string();
  if (curve == nullptr || secret.empty()) return {};
  const auto der = signature_of(ecdsa_key(*curve, point, secret).get(), curve->digest, data);
  return der ? ecdsa_wire(*der) : std::nullopt;
}

std::optional<std::vector<AgentKey>> parse_agent_keys(std::string_view answer) {
  if (answer.empty() || answer[0] != identities_answer) return {};
  WireReader reader(answer.substr(1));
  const auto count = reader.number();
  if (!count) return {};
  std::vector<AgentKey> keys;
  for (std::uint32_t i = 0; i < *count; ++i) {
    AgentKey key;
    key.blob = reader.string();
    key.comment = reader.string();
    if (key.blob.empty()) break;  // cut short: the count may be a lie
    keys.push_back(std::move(key));
  }
  return keys;
}

std::optional<std::string> parse_agent_signature(std::string_view answer) {
  if (answer.empty() || answer[0] != sign_response) return {};
  WireReader signature(WireReader(answer.substr(1)).string());
  signature.string();  // the algorithm
  const std::string bytes(signature.string());
  return bytes.empty() ? std::nullopt : std::optional(bytes);
}

//  idle ──► asked ──► idle
//             ▼ deadline, a broken connection, an endless answer
//           over: every question is answered with nothing
class SshAgent::Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  using Answered = std::function<void(std::string_view)>;  // empty: no answer

  explicit Conversation(boost::asio::io_context& io) : io_(io) {}

  void open(const std::string& path) {
    Fd socket = connect_to(path);
    if (!socket) return;
    using Protocol = boost::asio::local::stream_protocol;
    stream_ = std::make_shared<ByteStream>(Protocol::socket(io_, Protocol(), socket.release()));
    const auto ended = [](Conversation& self, const std::string&) { self.end(); };
    stream_->start({while_alive(weak_from_this(), &Conversation::received), nullptr,
                    while_alive(weak_from_this(), ended)});
  }

  void ask(const std::string& question, std::chrono::seconds timeout, Answered answered) {
    answered_ = std::move(answered);
    const auto give_up = while_alive(weak_from_this(), &Conversation::end);
    if (!stream_) return boost::asio::post(io_, give_up);
    stream_->write(wire_string(question));
    deadline_ = call_after(io_, timeout, give_up);
  }

  void end() {
    close();
    answer("");
  }

  void close() {
    deadline_.reset();
    if (const auto stream = std::exchange(stream_, nullptr)) stream->close();
  }

 private:
  void received(std::span<const std::byte> bytes) {
    input_ += text_of(bytes);
    const auto size = WireReader(input_).number();
    if (!size) return;
    if (*size > max_answer_bytes) return end();
    if (input_.size() < 4 + *size) return;
    deadline_.reset();
    const std::string whole = input_.substr(4, *size);
    input_.clear();
    answer(whole);
  }

  void answer(std::string_view text) {
    if (const auto answered = std::exchange(answered_, nullptr)) answered(text);
  }

  boost::asio::io_context& io_;
  std::unique_ptr<Alarm> deadline_;
  std::shared_ptr<ByteStream> stream_;
  Answered answered_;
  std::string input_;
};

SshAgent::SshAgent(boost::asio::io_context& io, const std::string& socket)
    : conversation_(std::make_shared<Conversation>(io)) {
  conversation_->open(socket);
}

SshAgent::~SshAgent() {
  conversation_->close();
}

void SshAgent::list(std::function<void(std::optional<std::vector<AgentKey>>)> done) {
  conversation_->ask(
      std::string(1, request_identities), list_timeout,
      [done = std::move(done)](std::string_view answer) { done(parse_agent_keys(answer)); });
}

void SshAgent::sign(const std::string& blob, std::string_view data,
                    std::function<void(std::optional<std::string>)> done) {
  const std::string question = std::string(1, sign_request) + wire_string(blob) +
                               wire_string(data) + wire_number(0);  // no flags
  conversation_->ask(question, sign_timeout, [done = std::move(done)](std::string_view answer) {
    done(parse_agent_signature(answer));
  });
}

}  // namespace muster
