#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "launcher/transport/link/start_gates.h"
#include "launcher/transport/ssh/host_key_store.h"
#include "launcher/transport/ssh/key_file.h"
#include "launcher/transport/transport_selector.h"
#include "scheduler/text/number.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

KeyFile made_key(const TemporaryFolder& folder, const std::string& type,
                 const std::string& passphrase, const std::string& format = "RFC4716") {
  const std::string path = (folder.path() / (type + format + passphrase)).string();
  run_here({"ssh-keygen", "-q", "-t", type, "-m", format, "-N", passphrase, "-f", path});
  const auto key = read_key_file(path);
  REQUIRE(key);
  return *key;
}

bool trusted(const HostKeyVerdict& verdict) {
  return std::holds_alternative<HostKeyTrusted>(verdict) ||
         std::holds_alternative<HostKeyPinned>(verdict);
}

std::string wire(const std::string& text) {
  return std::string(3, '\0') + static_cast<char>(text.size()) + text;
}

// A host key of the given type, told apart by its letter.
std::string key_of(const std::string& type, char letter) {
  return wire(type) + wire(std::string(32, letter));
}
const std::string key_a = key_of("ssh-ed25519", 'a'), key_b = key_of("ssh-ed25519", 'b');

// A store with one file of the user's, and what the policy says.
struct Keys {
  TemporaryFolder folder;
  std::string user = (folder.path() / "user").string();
  std::string own = (folder.path() / "state/known_hosts").string();
  HostKeyPolicy policy{HostKeyPolicy::Strict::pin, {user}};
  HostKeyStore store{own};

  HostKeyVerdict check(const std::string& host, int port, const std::string& key) {
    return store.check(policy, host, port, key);
  }
  void user_says(const std::string& text) { write_text(user, text); }
};

std::string line_for(const std::string& names, const std::string& key) {
  return names + " ssh-ed25519 " + encode_base64(key) + "\n";
}

}  // namespace

TEST_CASE("a key file tells its kind and whether it has a passphrase") {
  TemporaryFolder folder;
  CHECK(made_key(folder, "ed25519", "").kind == KeyKind::ed25519);
  CHECK(made_key(folder, "ecdsa", "").kind == KeyKind::ecdsa);
  CHECK(made_key(folder, "rsa", "").kind == KeyKind::rsa);
  CHECK(made_key(folder, "rsa", "", "PEM").kind == KeyKind::rsa);
  CHECK_FALSE(made_key(folder, "ecdsa", "", "PEM").has_passphrase);
  CHECK(made_key(folder, "ed25519", "secret").has_passphrase);
  CHECK(made_key(folder, "rsa", "secret", "PEM").has_passphrase);
  CHECK_FALSE(made_key(folder, "ed25519", "again1").public_blob.empty());
}

TEST_CASE("damaged key files are of no kind") {
  for (const std::string text :
       {"", "garbage", "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA/////w=="}) {
    CHECK(parse_key_file("k", text).kind == KeyKind::other);
  }
}

TEST_CASE("an unknown host is pinned once and then compared") {
  Keys keys;
  CHECK(trusted(keys.check("n1", 22, key_a)));
  CHECK(trusted(keys.check("n2", 22, key_b)));
  CHECK(trusted(keys.check("N1", 22, key_a)));
  CHECK(trusted(keys.check("n1", 2222, key_b)));
  const auto verdict = keys.check("n2", 22, key_a);
  REQUIRE(std::holds_alternative<HostKeyChanged>(verdict));
  CHECK(std::get<HostKeyChanged>(verdict).file == keys.own);
  CHECK(std::get<HostKeyChanged>(verdict).line == 2);
  CHECK(HostKeyStore(keys.own).known_types(keys.policy, "n1", 22) ==
        std::vector<std::string>{"ssh-ed25519"});
  CHECK(run_here({"ssh-keygen", "-l", "-f", keys.own}).size() > 0);  // OpenSSH can read it
}

TEST_CASE("the first contact with a host is told once, with the fingerprint of ssh-keygen") {
  Keys keys;
  const auto made = made_key(keys.folder, "ecdsa", "");
  const auto first = keys.check("n1", 22, made.public_blob);
  REQUIRE(std::holds_alternative<HostKeyPinned>(first));
  const auto& pinned = std::get<HostKeyPinned>(first);
  CHECK(pinned.file == keys.own);
  const std::string shown = run_here({"ssh-keygen", "-l", "-f", keys.own});
  REQUIRE(pinned.key.starts_with("ECDSA key SHA256:"));
  CHECK_THAT(shown, ContainsSubstring(pinned.key.substr(pinned.key.find("SHA256:")) + " n1"));
  CHECK(std::holds_alternative<HostKeyTrusted>(keys.check("n1", 22, made.public_blob)));
  CHECK(HostKeyStore(keys.own).pinned("n1", 22)->key == pinned.key);
  CHECK_FALSE(HostKeyStore(keys.own).pinned("n2", 22));
  NodeAddress node;
  node.id = NodeId{"n1"};
  CHECK(first_contact_text(node, {"ED25519 key SHA256:x", "/f"}) ==
        "first contact with n1: its ED25519 key SHA256:x is recorded in /f");
}

TEST_CASE("where unknown hosts are refused a known one gets in, and no other is pinned") {
  Keys keys;
  CHECK(trusted(keys.check("n1", 22, key_a)));
  keys.user_says(line_for("n2", key_b));
  keys.policy.strict = HostKeyPolicy::Strict::known;
  CHECK(trusted(keys.check("n1", 22, key_a)));
  CHECK(trusted(keys.check("n2", 22, key_b)));
  CHECK(std::holds_alternative<HostKeyChanged>(keys.check("n1", 22, key_b)));
  const auto refused = keys.check("n3", 22, key_a);
  REQUIRE(std::holds_alternative<HostKeyUnknown>(refused));
  CHECK_THAT(std::get<HostKeyUnknown>(refused).key, ContainsSubstring("ED25519 key SHA256:"));
  CHECK_THAT(read_text(keys.own), !ContainsSubstring("n3"));
}

TEST_CASE("a key of another kind does not get past the pinned one") {
  Keys keys;
  CHECK(trusted(keys.check("n1", 22, key_a)));
  const std::string other = key_of("ecdsa-sha2-nistp256", 'b');
  CHECK(std::holds_alternative<HostKeyChanged>(keys.check("n1", 22, other)));
}

TEST_CASE("a line for port 22 vouches for another port but does not forbid it a key of its own") {
  Keys keys;
  keys.user_says(line_for("n1", key_a));
  CHECK(trusted(keys.check("n1", 2222, key_a)));
  CHECK(trusted(keys.check("n1", 2223, key_b)));
  CHECK(std::holds_alternative<HostKeyChanged>(keys.check("n1", 22, key_b)));
}

TEST_CASE("hashed entries of the user's file count, and changes to it are seen") {
  Keys keys;
  keys.user_says("# comment\n\n" + line_for("n1,10.0.0.1", key_a));
  run_here({"ssh-keygen", "-q", "-H", "-f", keys.user});
  CHECK(read_text(keys.user).find("n1") == std::string::npos);
  CHECK(std::holds_alternative<HostKeyChanged>(keys.check("n1", 22, key_b)));
  CHECK(trusted(keys.check("10.0.0.1", 22, key_a)));
  keys.user_says("");
  CHECK(trusted(keys.check("n1", 22, key_b)));
}

TEST_CASE("a known_hosts file is read again when its time or its size has changed, and only then") {
  namespace fs = std::filesystem;
  Keys keys;
  keys.user_says(line_for("n1", key_a));
  const auto written = fs::last_write_time(keys.user);
  KnownHostsFile file(keys.user);
  CHECK(file.lines_about("n1").size() == 1);
  const auto lines_after = [&](const std::string& text, fs::file_time_type time) {
    keys.user_says(text);
    fs::last_write_time(keys.user, time);
    return file.lines_about("n1").size();
  };
  const std::string twice = line_for("n1", key_a) + line_for("n1", key_b);
  CHECK(lines_after(twice, written) == 2);  // within one tick of the clock
  const std::string none = line_for("n2", key_a) + line_for("n2", key_b);
  REQUIRE(none.size() == twice.size());
  CHECK(lines_after(none, written) == 2);
  CHECK(lines_after(none, written + std::chrono::seconds(1)) == 0);
  fs::remove(keys.user);
  CHECK(file.lines_about("n2").empty());
  CHECK(lines_after(twice, written) == 2);
}

TEST_CASE("lines that are appended count at once, beside those that somebody else wrote") {
  Keys keys;
  KnownHostsFile file(keys.own);
  CHECK(file.lines_about("n1").empty());
  REQUIRE(file.append("n1 ssh-ed25519 one"));
  REQUIRE(file.append("n1 ssh-ed25519 two"));
  REQUIRE(KnownHostsFile(keys.own).append("n1 ssh-ed25519 strange"));
  REQUIRE(file.append("n1 ssh-ed25519 three"));
  const auto lines = file.lines_about("n1");
  REQUIRE(lines.size() == 4);
  const char* expected[] = {"one", "two", "strange", "three"};
  for (int i = 0; i < 4; ++i) {
    CHECK(lines[static_cast<std::size_t>(i)].key == expected[i]);
    CHECK(lines[static_cast<std::size_t>(i)].number == i + 1);
  }
}

TEST_CASE("patterns, exceptions, revoked keys and authorities are read as ssh reads them") {
  Keys keys;
  keys.user_says(line_for("*.cluster,!bad.cluster", key_a) + line_for("n?", key_a) +
                 "@revoked * ssh-ed25519 " + encode_base64(key_b) +
                 "\n@cert-authority *.signed ssh-ed25519 AAAA\n");
  CHECK(trusted(keys.check("a.cluster", 22, key_a)));
  CHECK(trusted(keys.check("n7", 22, key_a)));
  CHECK(std::holds_alternative<HostKeyRevoked>(keys.check("a.cluster", 22, key_b)));
  CHECK(std::holds_alternative<HostKeyRevoked>(keys.check("elsewhere", 22, key_b)));
  CHECK(std::holds_alternative<HostKeyUnclear>(keys.check("a.signed", 22, key_a)));
  keys.policy.strict = HostKeyPolicy::Strict::yes;
  CHECK(std::holds_alternative<HostKeyUnknown>(keys.check("bad.cluster", 22, key_a)));
}

TEST_CASE("what was pinned does not count where the configuration is strict") {
  Keys keys;
  CHECK(trusted(keys.check("n1", 22, key_a)));
  keys.policy.strict = HostKeyPolicy::Strict::yes;
  CHECK(std::holds_alternative<HostKeyUnknown>(keys.check("n1", 22, key_a)));
  keys.user_says(line_for("n1", key_a));
  CHECK(trusted(keys.check("n1", 22, key_a)));
  keys.policy.strict = HostKeyPolicy::Strict::no;
  CHECK(trusted(keys.check("n1", 22, key_b)));
}

TEST_CASE("a pinned host starts a line of its own, whatever the file ends with") {
  Keys keys;
  std::filesystem::create_directories(keys.folder.path() / "state");
  write_text(keys.own, "half a li");
  CHECK(trusted(keys.check("n1", 22, key_a)));
  CHECK(read_text(keys.own) == "half a li\n" + line_for("n1", key_a));
}

TEST_CASE("a host that cannot be pinned is not trusted") {
  Keys keys;
  HostKeyStore store("/proc/no/known_hosts");
  CHECK(std::holds_alternative<HostKeyUnwritable>(store.check(keys.policy, "n1", 22, key_a)));
  const std::string odd = key_of("ssh-new n2 x\n", 'a');
  CHECK(std::holds_alternative<HostKeyUnwritable>(keys.check("n1", 22, odd)));
}

TEST_CASE("answers of an ssh agent that are damaged or refuse are told apart from answers") {
  const std::string keys = std::string("\x0c") + std::string(3, '\0') + "\x02" + wire("blob") +
                           wire("comment") + wire("second") + wire("");
  REQUIRE(parse_agent_keys(keys));
  CHECK(parse_agent_keys(keys)->size() == 2);
  CHECK(parse_agent_keys(keys)->at(0).comment == "comment");
  CHECK(parse_agent_keys(std::string("\x0c\xff\xff\xff\xff"))->empty());
  CHECK_FALSE(parse_agent_keys("\x05"));
  CHECK_FALSE(parse_agent_keys(""));
  CHECK(parse_agent_signature("\x0e" + wire(wire("ssh-ed25519") + wire("sig"))) == "sig");
  CHECK_FALSE(parse_agent_signature("\x05"));
  CHECK_FALSE(parse_agent_signature("\x0e" + wire("cut")));
}

TEST_CASE("an untouched system configuration asks for nothing") {
  CHECK(
      is_plain_ssh_config("# c\nInclude /nonexistent/*.conf\n\nHost *\n    SendEnv LANG LC_*\n"
                          "    HashKnownHosts yes\n    GSSAPIAuthentication yes\n"));
  CHECK_FALSE(is_plain_ssh_config("Host login\n  ProxyJump gate\n"));
  CHECK_FALSE(is_plain_ssh_config("Host *\n  User=me\n"));
  CHECK_FALSE(is_plain_ssh_config("Include config.d/*\n"));  // below the folder of the file
  CHECK_FALSE(is_plain_ssh_config("Include /nonexistent/a /nonexistent/b\n"));
}

TEST_CASE("what the configuration says about host keys is honoured") {
  const auto policy = [](const std::string& dump) { return parse_ssh_config(dump).host_keys; };
  CHECK(policy("stricthostkeychecking ask\n").strict == HostKeyPolicy::Strict::pin);
  CHECK(policy("stricthostkeychecking accept-new\n").strict == HostKeyPolicy::Strict::pin);
  CHECK(policy("stricthostkeychecking true\n").strict == HostKeyPolicy::Strict::yes);
  CHECK(policy("stricthostkeychecking false\n").strict == HostKeyPolicy::Strict::no);
  CHECK(policy("userknownhostsfile /a /b\nglobalknownhostsfile /c\n").files ==
        std::vector<std::string>{"/a", "/b", "/c"});
  CHECK(policy("userknownhostsfile none\n").files.empty());
  for (const std::string line : {"userknownhostsfile /a/%h\n", "identityfile ~/.ssh/%r\n",
                                 "revokedhostkeys /etc/r\n", "knownhostscommand /bin/k\n"}) {
    INFO(line);
    CHECK_THAT(needs_openssh(parse_ssh_config(line), false), ContainsSubstring("ssh program"));
  }
}

TEST_CASE("a configuration that hangs or is broken is a failure that names it, not no answer") {
  TemporaryFolder folder;
  const std::string file = (folder.path() / "config").string();
  write_text(file, "Host n1\n  User me\n");
  const std::string program = (folder.path() / "ssh").string();
  const std::string old_path = std::getenv("PATH");
  const auto answer_of = [&](const std::string& script) {
    write_text(program, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(program, std::filesystem::perms(0755));
    boost::asio::io_context io;
    const auto ask = ask_ssh_config(io, {file}, false, Milliseconds(300));
    SshConfigAnswer answer;
    NodeAddress node;
    node.host = "n1";
    node.user = "you";
    ask(node, [&](const SshConfigAnswer& got) { answer = got; });
    io.run();
    return answer;
  };
  ::setenv("PATH", (folder.path().string() + ":" + old_path).c_str(), 1);
  const auto hung = answer_of("exec sleep 60");
  const auto broken = answer_of("echo 'config line 2: Bad option' >&2; exit 255");
  const auto good = answer_of("[ \"$*\" = '-G -l you -- n1' ] && echo 'user me'");
  ::setenv("PATH", old_path.c_str(), 1);
  REQUIRE(std::holds_alternative<LinkFailure>(hung));
  CHECK_THAT(std::get<LinkFailure>(hung).message, ContainsSubstring("Match exec"));
  REQUIRE(std::holds_alternative<LinkFailure>(broken));
  CHECK_THAT(std::get<LinkFailure>(broken).message, ContainsSubstring("Bad option"));
  REQUIRE(std::holds_alternative<SshHostConfig>(good));
  CHECK(std::get<SshHostConfig>(good).user == "me");
}

TEST_CASE("what libssh2 cannot do goes to the ssh program") {
  const auto reason = [](const std::string& dump, bool ticket = false) {
    return needs_openssh(parse_ssh_config(dump), ticket);
  };
  CHECK(reason("hostname n1\nuser me\nport 22\nproxyjump none\n").empty());
  CHECK_THAT(reason("proxyjump gate\n"), ContainsSubstring("ProxyJump"));
  CHECK_THAT(reason("proxycommand nc %h %p\n"), ContainsSubstring("ProxyCommand"));
  CHECK_THAT(reason("certificatefile ~/.ssh/id-cert.pub\n"), ContainsSubstring("certificate"));
  CHECK(reason("gssapiauthentication yes\n").empty());
  CHECK_THAT(reason("gssapiauthentication yes\n", true), ContainsSubstring("Kerberos"));
  TemporaryFolder folder;
  const std::string rsa = made_key(folder, "rsa", "").path;
  const std::string good = made_key(folder, "ed25519", "").path;
  CHECK_THAT(reason("identityfile " + rsa + "\n"), ContainsSubstring("keys"));
  CHECK(reason("identityfile " + rsa + "\nidentityfile " + good + "\n").empty());
}

TEST_CASE("the ssh configuration fills in what the cluster file leaves open") {
  TemporaryFolder folder;
  const std::string key = made_key(folder, "ed25519", "").path;
  const auto config =
      parse_ssh_config("hostname 10.1.1.1\nuser me\nport 2200\nidentityfile " + key + "\n");
  NodeAddress node;
  node.host = "login";
  const NodeAddress open = with_ssh_config(node, config);
  CHECK(open.host == "10.1.1.1");
  CHECK(open.user == "me");
  CHECK(open.port == 2200);
  CHECK(open.identity_file == key);
  node.user = "other";
  node.identity_file = "/k";
  CHECK(with_ssh_config(node, config).user == "other");
  CHECK(with_ssh_config(node, config).identity_file == "/k");
}

TEST_CASE("whoever came first enters first, and with it the limits that it brought") {
  boost::asio::io_context io;
  const auto gate = std::make_shared<HandshakeGate>(io);
  std::string order;
  std::vector<HandshakeGate::Pass> inside;
  const auto enter = [&](const std::string& address, HandshakeGate::Limits limits, char name) {
    gate->enter(address, limits, [&order, &inside, name](HandshakeGate::Pass pass) {
      order += name;
      inside.push_back(std::move(pass));
    });
  };
  const auto leave = [&] {
    inside.erase(inside.begin());
    io.restart();
    io.poll();
  };
  enter("x", {2, 1}, '1');
  CHECK(order.empty());  // never from inside the call
  enter("x", {2, 1}, '2');
  enter("y", {1, 1}, '3');  // of a target that wants nobody beside it
  enter("z", {2, 1}, '4');
  enter("x", {2, 1}, '5');
  io.poll();
  CHECK(order == "14");
  leave();
  CHECK(order == "142");
  leave();
  CHECK(order == "142");
  leave();
  CHECK(order == "14235");  // the second beside the first, which it does not mind
}

TEST_CASE("the gate keeps to both limits and lets others pass a full address") {
  boost::asio::io_context io;
  const auto gate = std::make_shared<HandshakeGate>(io);
  std::vector<std::pair<std::string, HandshakeGate::Pass>> inside;
  for (const std::string name : {"a", "a", "a", "b", "b"}) {
    gate->enter(name, {3, 2}, [&inside, name](HandshakeGate::Pass pass) {
      inside.emplace_back(name, std::move(pass));
    });
  }
  io.run();
  REQUIRE(inside.size() == 3);
  CHECK(inside[2].first == "b");
  inside.erase(inside.begin());
  io.restart();
  io.run();
  REQUIRE(inside.size() == 3);
  CHECK(inside[2].first == "a");
  inside.clear();
  io.restart();
  io.run();
  CHECK(inside.size() == 1);
}

}  // namespace muster
