#include "launcher/transport/ssh/agent.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "launcher/os/fd.h"
#include "launcher/transport/link/byte_stream.h"
#include "launcher/transport/link/remote_process.h"
#include "launcher/transport/ssh/key_file.h"

namespace muster {
namespace {

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

  explicit Conversation(boost::asio::io_context& io) : io_(io), deadline_(io) {}

  void open(const std::string& path) {
    Fd socket = connect_to(path);
    if (!socket) return;
    using Protocol = boost::asio::local::stream_protocol;
    stream_ = std::make_shared<ByteStream>(Protocol::socket(io_, Protocol(), socket.release()));
    stream_->start({[weak = weak_from_this()](std::span<const std::byte> bytes) {
                      if (const auto self = weak.lock()) self->received(bytes);
                    },
                    [] {},
                    [weak = weak_from_this()](const std::string&) {
                      if (const auto self = weak.lock()) self->end();
                    }});
  }

  void ask(const std::string& question, std::chrono::seconds timeout, Answered answered) {
    answered_ = std::move(answered);
    if (!stream_) {
      boost::asio::post(io_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->end();
      });
      return;
    }
    stream_->write(wire_string(question));
    deadline_.expires_after(timeout);
    deadline_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (self && !error && self->deadline_.expiry() <= std::chrono::steady_clock::now()) {
        self->end();
      }
    });
  }

  void end() {
    close();
    answer("");
  }

  void close() {
    deadline_.cancel();
    if (const auto stream = std::exchange(stream_, nullptr)) stream->close();
  }

 private:
  void received(std::span<const std::byte> bytes) {
    input_ += text_of(bytes);
    const auto size = WireReader(input_).number();
    if (!size) return;
    if (*size > max_answer_bytes) return end();
    if (input_.size() < 4 + *size) return;
    deadline_.cancel();
    const std::string whole = input_.substr(4, *size);
    input_.clear();
    answer(whole);
  }

  void answer(std::string_view text) {
    if (const auto answered = std::exchange(answered_, nullptr)) answered(text);
  }

  boost::asio::io_context& io_;
  boost::asio::steady_timer deadline_;
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
  conversation_->ask(std::string(1, request_identities), list_timeout,
                     [done = std::move(done)](std::string_view answer) {
                       done(parse_agent_keys(answer));
                     });
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
