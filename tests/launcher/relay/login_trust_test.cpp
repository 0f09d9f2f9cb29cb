// What the login node signs for others, checked by OpenSSH itself.
#include "launcher/relay/login_trust.h"

#include <boost/asio/io_context.hpp>
#include <csignal>

#include "launcher/transport/base64.h"
#include "launcher/transport/wire_reader.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

// A folder of keys as ~/.ssh is.
struct Keys {
  TemporaryFolder folder;
  boost::asio::io_context io;
  std::shared_ptr<LoginTrust> trust;

  Keys() {
    SshSettings settings;
    settings.key_folder = folder.path().string();
    settings.own_known_hosts = file("known_hosts");
    trust = make_login_trust(io, settings);
  }
  std::string file(const std::string& name) const { return (folder.path() / name).string(); }
  void make(const std::string& name, const std::string& type, const std::string& bits,
            const std::string& passphrase = "") const {
    run_here({"ssh-keygen", "-q", "-t", type, "-b", bits, "-N", passphrase, "-f", file(name)});
  }
  std::vector<std::string> offered(const std::string& identity_file = "") const {
    NodeAddress node;
    node.identity_file = identity_file;
    std::vector<std::string> all;
    trust->keys_for(node, [&](std::vector<std::string> keys) { all = std::move(keys); });
    return all;
  }
  std::optional<std::string> sign(const std::string& key, const std::string& data) const {
    std::optional<std::string> answer;
    trust->sign(key, data, [&](std::optional<std::string> bytes) { answer = std::move(bytes); });
    return answer;
  }
  // Wraps the signature as `ssh-keygen -Y sign` would and has it checked.
  void check_by_openssh(const std::string& key, const std::string& message) const {
    const std::string head = "SSHSIG";
    const std::string names = wire_string("muster") + wire_string("") + wire_string("sha512");
    write_text(file("message"), message);
    const std::string hash = bytes_of_hex(run_here({"sha512sum", file("message")}).substr(0, 128));
    const auto bytes = sign(key, head + names + wire_string(hash));
    REQUIRE(bytes);
    const std::string type(WireReader(key).string());
    const std::string blob = head + wire_number(1) + wire_string(key) + names +
                             wire_string(wire_string(type) + wire_string(*bytes));
    std::string lines = encode_base64(blob);
    for (std::size_t at = 70; at < lines.size(); at += 71) lines.insert(at, "\n");
    write_text(file("signature"), "-----BEGIN SSH SIGNATURE-----\n" + lines +
                                      "\n-----END SSH SIGNATURE-----\n");
    CHECK_NOTHROW(run_here({"sh", "-c",
                            "ssh-keygen -Y check-novalidate -n muster -s \"$1\" < \"$2\"", "sh",
                            file("signature"), file("message")}));
  }
};

// An ssh agent that can be held up.
class KeyAgentProcess {
 public:
  explicit KeyAgentProcess(std::string socket) : socket_(std::move(socket)) {
    const std::string said = run_here({"ssh-agent", "-a", socket_});
    const std::string mark = "SSH_AGENT_PID=";
    process_ = std::stoi(said.substr(said.find(mark) + mark.size()));
  }
  KeyAgentProcess(const KeyAgentProcess&) = delete;
  ~KeyAgentProcess() { ::kill(process_, SIGKILL); }
  void add(const std::string& key) const {
    run_here({"env", "SSH_AUTH_SOCK=" + socket_, "ssh-add", "-q", key});
  }
  void stop() const { ::kill(process_, SIGSTOP); }
  void go_on() const { ::kill(process_, SIGCONT); }

 private:
  std::string socket_;
  pid_t process_ = 0;
};

}  // namespace

TEST_CASE("what the login node signs with a key file is what OpenSSH would have signed") {
  Keys keys;
  const std::string bits = GENERATE("256", "384", "521", "");
  bits.empty() ? keys.make("id_ed25519", "ed25519", "256") : keys.make("id_ecdsa", "ecdsa", bits);
  const auto offered = keys.offered();
  REQUIRE(offered.size() == 1);
  // The two numbers of an ECDSA signature are now and then shorter, or begin with a set bit.
  for (int i = 0; i < 12; ++i) keys.check_by_openssh(offered[0], "login " + std::to_string(i));
}

TEST_CASE("keys that cannot sign are not offered, and one that is named goes first") {
  Keys keys;
  keys.make("id_ed25519", "ed25519", "256", "a passphrase");
  keys.make("id_ecdsa", "ecdsa", "256");
  keys.make("named", "ed25519", "256");
  CHECK(keys.offered().size() == 1);
  const auto with_name = keys.offered(keys.file("named"));
  REQUIRE(with_name.size() == 1);
  CHECK(WireReader(with_name[0]).string() == "ssh-ed25519");
  CHECK(keys.offered(keys.file("missing")).empty());
  CHECK_FALSE(keys.sign("of nobody", "data"));
}

TEST_CASE("however many nodes ask at once, an ssh agent that is slow answers them all") {
  Keys keys;
  keys.make("held", "ed25519", "256");
  const KeyAgentProcess agent(keys.file("agent"));
  agent.add(keys.file("held"));
  SshSettings settings;
  settings.key_folder = keys.file("none");
  settings.own_known_hosts = keys.file("known_hosts");
  settings.agent_socket = keys.file("agent");
  const auto trust = make_login_trust(keys.io, settings);
  constexpr int nodes = 300;  // more than may stand in front of its door
  std::vector<std::string> offered;
  agent.stop();
  for (int i = 0; i < nodes; ++i) {
    trust->keys_for({}, [&](const std::vector<std::string>& all) {
      offered.insert(offered.end(), all.begin(), all.end());
    });
  }
  agent.go_on();
  keys.io.run();
  REQUIRE(offered.size() == nodes);
  int signatures = 0;
  agent.stop();
  for (int i = 0; i < nodes; ++i) {
    trust->sign(offered[0], "data", [&](const std::optional<std::string>& signature) {
      signatures += signature.has_value();
    });
  }
  agent.go_on();
  keys.io.restart();
  keys.io.run();
  CHECK(signatures == nodes);
}

TEST_CASE("a host key shown by another node is pinned once, and another one is refused") {
  Keys keys;
  SshTarget target;
  target.node.host = "n1";
  std::vector<bool> verdicts;
  const auto judge = [&](const std::string& key) {
    keys.trust->judge(target, key, [&](bool is_trusted) { verdicts.push_back(is_trusted); });
  };
  const auto host_key = [](char name) {
    return wire_string("ssh-ed25519") + wire_string(std::string(32, name));
  };
  judge(host_key('a'));
  judge(host_key('a'));
  judge(host_key('b'));
  judge("");
  CHECK(verdicts == std::vector<bool>{true, true, false, false});
  target.node.host = "n2";
  target.host_keys.strict = HostKeyPolicy::Strict::yes;
  judge(host_key('a'));
  CHECK_FALSE(verdicts.back());
}

}  // namespace muster
