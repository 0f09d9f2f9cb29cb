#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <optional>

#include "launcher/os/read_file.h"
#include "launcher/transport/ssh/transport.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

// A cluster of one host, and a node to spoil.
struct OneHost {
  boost::asio::io_context io;  // outlives the links
  TestCluster cluster{1};
  TemporaryFolder folder;
  NodeAddress node = cluster.nodes()[0];
  AgentLaunch launch = fake_agent(folder, "f1");

  std::unique_ptr<Transport> transport(SshSettings settings,
                                       SshTransport::Fallback fallback = nullptr) {
    return std::make_unique<ToNodes<SshTransport>>(
        io, std::move(settings), std::make_shared<PushGate>(io), std::move(fallback));
  }
  ConnectResult connect(SshSettings settings) {
    return connect_one(io, *transport(std::move(settings)), node, launch);
  }
  std::vector<ConnectResult> connect_burst(SshSettings settings, int count) {
    const std::vector<NodeAddress> burst(static_cast<std::size_t>(count), node);
    return connect_all(io, *transport(std::move(settings)), burst, launch);
  }
  ConnectResult connect() { return connect(cluster.settings()); }
};

}  // namespace

TEST_CASE("names and ports that do not answer are told apart") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  one.node.port = 23;
  const auto refused = one.connect();
  CHECK(failed_with(refused, LinkFailureKind::unreachable));
  CHECK_THAT(message_of(refused), ContainsSubstring("port 23 refuses connections"));
  CHECK(std::get<LinkFailure>(refused).is_denied);
  one.node.host = "no-such-host.invalid";
  const auto unknown = one.connect();
  INFO(message_of(unknown));
  CHECK((failed_with(unknown, LinkFailureKind::unknown_host) ||
         failed_with(unknown, LinkFailureKind::unreachable)));  // the latter without a name server
  CHECK_THAT(message_of(unknown), ContainsSubstring("does not resolve"));
}

TEST_CASE("a host that is off is given up at the connect timeout") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  one.cluster.verb("partition", 0);
  one.launch.connect.tcp_timeout = Milliseconds(500);
  const auto result = one.connect();
  CHECK(failed_with(result, LinkFailureKind::unreachable));
}

TEST_CASE("keys that are not accepted, encrypted, RSA or missing are explained") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  const auto make_key = [&](const char* type, const char* passphrase) {
    one.node.identity_file = (one.folder.path() / (std::string(type) + passphrase)).string();
    run_here({"ssh-keygen", "-q", "-t", type, "-N", passphrase, "-f", one.node.identity_file});
  };
  make_key("ed25519", "");
  auto result = one.connect();
  CHECK(failed_with(result, LinkFailureKind::refused_key));
  CHECK_THAT(message_of(result), ContainsSubstring("authorized_keys"));
  make_key("ed25519", "secret");
  result = one.connect();
  CHECK(failed_with(result, LinkFailureKind::refused_key));
  CHECK_THAT(message_of(result), ContainsSubstring("has a passphrase"));
  one.node.identity_file = "/nonexistent";
  CHECK_THAT(message_of(one.connect()), ContainsSubstring("/nonexistent cannot be read"));
  one.node.identity_file.clear();
  CHECK_THAT(message_of(one.connect()), ContainsSubstring("there is no key in"));
  make_key("rsa", "");
  CHECK_THAT(message_of(one.connect()), ContainsSubstring("RSA key"));
  bool asked = false;
  const auto witness = [&](const SshTarget&, const AgentLaunch&, const auto& done) {
    asked = true;
    done(LinkFailure{LinkFailureKind::unreachable, "the witness was asked"});
  };
  connect_one(one.io, *one.transport(one.cluster.settings(), witness), one.node, one.launch);
  CHECK(asked);
  one.node.identity_file = (one.folder.path() / "old").string();
  run_here({"ssh-keygen", "-q", "-t", "ecdsa", "-m", "PEM", "-N", "", "-f",
            one.node.identity_file});
  CHECK_THAT(message_of(one.connect()), ContainsSubstring("a key that only the ssh program"));
}

TEST_CASE("key files of every kind that sshd and we share open the door") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  int made = 0;
  for (const char* options :
       {"-t ed25519", "-t ecdsa -b 256", "-t ecdsa -b 384", "-t ecdsa -b 521"}) {
    CAPTURE(options);
    one.node.identity_file = (one.folder.path() / ("key" + std::to_string(made++))).string();
    run_here({"sh", "-c",
              "ssh-keygen -q " + std::string(options) + " -N '' -f " + one.node.identity_file +
                  " && cat " + one.node.identity_file + ".pub >> " +
                  one.cluster.file("authorized_keys")});
    CHECK(message_of(one.connect()) == "connected");
  }
}

TEST_CASE("a key file whose secret part is damaged is named") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  std::string text = text_of_file(one.node.identity_file);
  const std::size_t in_secret_part = text.find('\n') + 1 + 71 + 64;  // of an Ed25519 key
  REQUIRE(text.size() > in_secret_part);
  text[in_secret_part] = text[in_secret_part] == 'A' ? 'B' : 'A';
  one.node.identity_file = (one.folder.path() / "damaged").string();
  REQUIRE(replace_file(one.node.identity_file, text, 0600, Durable::in_cache));
  const auto result = one.connect();
  CHECK(failed_with(result, LinkFailureKind::refused_key));
  CHECK_THAT(message_of(result), ContainsSubstring("damaged is damaged"));
}

TEST_CASE("a key that only the ssh agent holds opens the door") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  const std::string socket = (one.folder.path() / "agent").string();
  run_here({"sh", "-c", "ssh-agent -a " + socket + " > " + one.folder.path().string() + "/env"});
  run_here({"env", "SSH_AUTH_SOCK=" + socket, "ssh-add", "-q", one.node.identity_file});
  one.node.identity_file.clear();
  SshSettings settings = one.cluster.settings();
  settings.agent_socket = socket;
  const auto result = one.connect(settings);
  run_here({"sh", "-c", ". " + one.folder.path().string() + "/env && kill $SSH_AGENT_PID"});
  CHECK(message_of(result) == "connected");
}

TEST_CASE("an ssh agent that says nothing holds up its own login for seconds, and nothing else") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  SshSettings settings = one.cluster.settings();
  settings.agent_socket = (one.folder.path() / "agent").string();
  boost::asio::local::stream_protocol::acceptor silent(one.io, settings.agent_socket);
  const auto transport = one.transport(settings);
  std::optional<ConnectResult> result;
  transport->connect(one.node, one.launch, [&](ConnectResult r) { result = std::move(r); });
  std::chrono::steady_clock::duration longest_stop{};
  const auto start = std::chrono::steady_clock::now();
  for (auto last = start; !result && last - start < std::chrono::seconds(30);) {
    one.io.restart();
    one.io.run_one_for(std::chrono::milliseconds(10));
    const auto now = std::chrono::steady_clock::now();
    longest_stop = std::max(longest_stop, now - last);
    last = now;
  }
  REQUIRE(result);
  CHECK(message_of(*result) == "connected");
  CHECK(longest_stop < std::chrono::seconds(2));
}

TEST_CASE("a host is pinned at first sight and a changed key is never connected to") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  const auto first = one.connect();
  REQUIRE(message_of(first) == "connected");
  CHECK_THAT(std::get<Connected>(first).first_contact,
             ContainsSubstring("first contact with") && ContainsSubstring("SHA256:"));
  const auto second = one.connect();
  REQUIRE(message_of(second) == "connected");
  CHECK(std::get<Connected>(second).first_contact.empty());
  CHECK_THAT(std::get<Connected>(second).methods,
             ContainsSubstring("ssh-ed25519") && ContainsSubstring("-ctr hmac-"));
  const SshSettings settings = one.cluster.settings();
  CHECK_THAT(read_text(settings.own_known_hosts), ContainsSubstring(one.node.host));
  one.cluster.verb("crash", 0);
  const std::string key = one.cluster.file(one.node.id.value + "/host_key");
  run_here({"sh", "-c", "rm -f " + key + " && ssh-keygen -q -t ed25519 -N '' -f " + key});
  one.cluster.verb("boot", 0);
  const auto changed = one.connect();
  CHECK(failed_with(changed, LinkFailureKind::changed_host_key));
  CHECK_THAT(message_of(changed), ContainsSubstring(settings.own_known_hosts + ", line 1"));
  CHECK_THAT(message_of(changed), ContainsSubstring("ssh-keygen -R"));
}

TEST_CASE("a host in the user's known_hosts is not pinned again") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  SshSettings settings = one.cluster.settings();
  const std::string file = one.cluster.file("known_hosts");
  settings.host_keys.files = {"/nonexistent", file};
  CHECK(message_of(one.connect(settings)) == "connected");
  CHECK_FALSE(std::filesystem::exists(settings.own_known_hosts));
  run_here({"ssh-keygen", "-q", "-H", "-f", file});
  CHECK(message_of(one.connect(settings)) == "connected");
  CHECK_FALSE(std::filesystem::exists(settings.own_known_hosts));
}

TEST_CASE("where the configuration is strict an unknown host is refused and nothing is written") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  SshSettings settings = one.cluster.settings();
  settings.host_keys.strict = HostKeyPolicy::Strict::yes;
  const auto refused = one.connect(settings);
  CHECK(failed_with(refused, LinkFailureKind::changed_host_key));
  CHECK_THAT(message_of(refused), ContainsSubstring("StrictHostKeyChecking yes"));
  CHECK_FALSE(std::filesystem::exists(settings.own_known_hosts));
  settings.host_keys.files = {one.cluster.file("known_hosts")};
  CHECK(message_of(one.connect(settings)) == "connected");
  settings.host_keys.strict = HostKeyPolicy::Strict::no;
  settings.host_keys.files = {one.folder.path() / "stranger"};
  write_text(settings.host_keys.files[0],
             one.node.host + " " + read_text(one.cluster.file("client_key.pub")));
  CHECK(message_of(one.connect(settings)) == "connected");
  CHECK_FALSE(std::filesystem::exists(settings.own_known_hosts));
}

TEST_CASE("thirty connections to one host all get through") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  SshSettings settings = one.cluster.settings();
  for (const auto& result : one.connect_burst(settings, 30)) {
    CHECK(message_of(result) == "connected");
  }
}

TEST_CASE("connections that sshd drops are tried again") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  one.launch.connect.unauthenticated_per_host = 30;  // provoke MaxStartups
  for (const auto& result : one.connect_burst(one.cluster.settings(), 30)) {
    CHECK(message_of(result) == "connected");
  }
}

// `port` as the kernel shows it: in hexadecimal.
std::string until_somebody_listens(const std::string& port) {
  return "until grep -q ':" + port + " 00000000:0000 0A' /proc/net/tcp; do sleep 0.05; done";
}

TEST_CASE("something that is not sshd is given up") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  one.node.port = 2222;
  SshSettings settings = one.cluster.settings();
  one.launch.connect.retries = 2;
  one.launch.connect.login_timeout = Milliseconds(1500);
  const std::string listener =
      "setsid python3 -c 'import socket,time\ns=socket.socket()\ns.bind((\"\",2222))\ns.listen()\n"
      "k=[]\nwhile 1: k.append(s.accept())' >/dev/null 2>&1 & " +
      until_somebody_listens("08AE");
  one.cluster.on(0, listener);
  const auto silent = one.connect(settings);
  CHECK(failed_with(silent, LinkFailureKind::unreachable));
  CHECK_THAT(message_of(silent), ContainsSubstring("login timed out"));
  CHECK_FALSE(std::get<LinkFailure>(silent).is_denied);  // it may only stand still
  one.node.port = 2223;
  const std::string closer =
      "setsid python3 -c 'import socket\ns=socket.socket()\ns.bind((\"\",2223))\ns.listen()\n"
      "while 1: s.accept()[0].close()' >/dev/null 2>&1 & " +
      until_somebody_listens("08AF");
  one.cluster.on(0, closer);
  const auto closing = one.connect(settings);
  CHECK(failed_with(closing, LinkFailureKind::unreachable));
  CHECK_THAT(message_of(closing), ContainsSubstring("closed 3 connections before login"));
  CHECK(std::get<LinkFailure>(closing).is_denied);
}

TEST_CASE("an address that nobody has is not refused, and the round trip to a host is measured") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  const auto reached = one.connect();
  REQUIRE(std::holds_alternative<Connected>(reached));
  REQUIRE(std::get<Connected>(reached).round_trip);
  CHECK(*std::get<Connected>(reached).round_trip < std::chrono::milliseconds(50));
  one.node.host = one.node.host.substr(0, one.node.host.rfind('.')) + ".249";
  const auto nobody = one.connect();
  INFO(message_of(nobody));
  CHECK(failed_with(nobody, LinkFailureKind::unreachable));
  CHECK_FALSE(std::get<LinkFailure>(nobody).is_denied);
}

TEST_CASE("a full disk, a foreign binary and a broken shell are told apart") {
  if (!TestCluster::permitted()) return;
  OneHost one;
  const std::string home = "/home/sandbox";
  one.cluster.on(0, "mkdir -p " + home + "/tiny && mount -t tmpfs -o size=64k,mode=777 tmpfs " +
                        home + "/tiny");
  one.launch.home = "~/tiny";
  write_text(one.launch.binary, "#!/bin/sh\n" + std::string(1'000'000, '#') + "\n");
  const auto full = one.connect();
  CHECK(failed_with(full, LinkFailureKind::disk_full));
  CHECK_THAT(message_of(full), ContainsSubstring("No space left"));

  one.launch.home = "~/foreign";
  const std::string there = home + "/foreign/bin/muster-f1";
  one.cluster.on(0, "mkdir -p " + home + "/foreign/bin && printf '\\177ELF\\002\\001\\001' > " +
                        there + " && head -c 1000 /dev/zero >> " + there + " && chmod 755 " +
                        there + " && chown -R sandbox: " + home + "/foreign");
  const auto foreign = one.connect();
  INFO(message_of(foreign));
  CHECK(failed_with(foreign, LinkFailureKind::wrong_build));

  one.cluster.on(0, "printf '#!/nonexistent/sh\\n' > " + there);
  const auto missing = one.connect();
  CHECK(failed_with(missing, LinkFailureKind::shell));
  CHECK_THAT(message_of(missing), ContainsSubstring(one.node.id.value));

  one.launch.home = "/nowhere";
  CHECK(failed_with(one.connect(), LinkFailureKind::disk_full));

  one.launch.home = "~/foreign";
  one.cluster.on(0, "echo 'echo You may not log in here; exit 3' > " + home + "/.bashrc");
  const auto closed = one.connect();
  CHECK(failed_with(closed, LinkFailureKind::shell));
  CHECK_THAT(message_of(closed), ContainsSubstring("You may not log in here"));
}

}  // namespace muster
