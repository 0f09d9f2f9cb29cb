#include <libssh2.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "launcher/transport/handshake_gate.h"
#include "launcher/transport/host_key_store.h"
#include "launcher/transport/key_file.h"
#include "launcher/transport/ssh_config.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

KeyFile made_key(const TemporaryFolder& folder, const std::string& type,
                 const std::string& passphrase, const std::string& format = "RFC4716") {
  const std::string path = (folder.path() / (type + format + passphrase)).string();
  run_here({"ssh-keygen", "-q", "-t", type, "-m", format, "-N", passphrase, "-f", path});
  KeyFile key;
  REQUIRE(read_key_file(path, key));
  return key;
}

bool trusted(const HostKeyVerdict& verdict) {
  return std::holds_alternative<HostKeyTrusted>(verdict);
}

// ssh-keygen checks the key blobs, libssh2 does not: any text serves here.
const std::string key_a = "blob of key a", key_b = "blob of key b";
constexpr int ed25519 = LIBSSH2_HOSTKEY_TYPE_ED25519;
constexpr int ecdsa = LIBSSH2_HOSTKEY_TYPE_ECDSA_256;

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
  TemporaryFolder folder;
  const std::string own = (folder.path() / "state/known_hosts").string();
  HostKeyStore store((folder.path() / "none").string(), own);
  CHECK(trusted(store.check("n1", 22, key_a, ed25519)));
  CHECK(trusted(store.check("n2", 22, key_b, ed25519)));
  CHECK(trusted(store.check("n1", 22, key_a, ed25519)));
  CHECK(trusted(store.check("n1", 2222, key_b, ed25519)));
  const auto verdict = store.check("n2", 22, key_a, ed25519);
  REQUIRE(std::holds_alternative<HostKeyChanged>(verdict));
  CHECK(std::get<HostKeyChanged>(verdict).file == own);
  CHECK(std::get<HostKeyChanged>(verdict).line == 2);
  CHECK(HostKeyStore("", own).known_types("n1", 22) == std::vector<std::string>{"ssh-ed25519"});
}

TEST_CASE("a key of another kind does not get past the pinned one") {
  TemporaryFolder folder;
  HostKeyStore store("", (folder.path() / "known_hosts").string());
  CHECK(trusted(store.check("n1", 22, key_a, ed25519)));
  CHECK(std::holds_alternative<HostKeyChanged>(store.check("n1", 22, key_b, ecdsa)));
}

TEST_CASE("hashed entries of the user's file count, and changes to it are seen") {
  TemporaryFolder folder;
  const std::string user = (folder.path() / "user").string();
  const std::string blob_base64 = "YmxvYiBvZiBrZXkgYQ==";  // key_a
  write_text(user, "# comment\n\nn1,10.0.0.1 ssh-ed25519 " + blob_base64 + "\n");
  run_here({"sh", "-c", "ssh-keygen -q -H -f '" + user + "' 2>/dev/null || true"});
  HostKeyStore store(user, (folder.path() / "own").string());
  CHECK(std::holds_alternative<HostKeyChanged>(store.check("n1", 22, key_b, ed25519)));
  write_text(user, "");
  CHECK(trusted(store.check("n1", 22, key_b, ed25519)));
}

TEST_CASE("an unknown host is left to the ssh program where known_hosts has patterns") {
  TemporaryFolder folder;
  const std::string user = (folder.path() / "user").string();
  HostKeyStore store(user, (folder.path() / "own").string());
  for (const std::string line : {"@revoked * ssh-ed25519 AAAA", "*.cluster ssh-ed25519 AAAA",
                                 "@cert-authority *.cluster ssh-ed25519 AAAA"}) {
    write_text(user, "n2 ssh-ed25519 YmxvYiBvZiBrZXkgYQ==\n" + line + "\n");
    CHECK(std::holds_alternative<HostKeyUnclear>(store.check("n1", 22, key_a, ed25519)));
    CHECK(trusted(store.check("n2", 22, key_a, ed25519)));
  }
}

TEST_CASE("a host that cannot be pinned is not trusted") {
  HostKeyStore store("", "/proc/no/known_hosts");
  CHECK(std::holds_alternative<HostKeyUnwritable>(store.check("n1", 22, key_a, ed25519)));
}

TEST_CASE("an untouched system configuration asks for nothing") {
  CHECK(
      is_plain_ssh_config("# c\nInclude /nonexistent/*.conf\n\nHost *\n    SendEnv LANG LC_*\n"
                          "    HashKnownHosts yes\n    GSSAPIAuthentication yes\n"));
  CHECK_FALSE(is_plain_ssh_config("Host login\n  ProxyJump gate\n"));
  CHECK_FALSE(is_plain_ssh_config("Host *\n  User=me\n"));
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

TEST_CASE("the gate keeps to both limits and lets others pass a full address") {
  boost::asio::io_context io;
  const auto gate = std::make_shared<HandshakeGate>(io, 3, 2);
  std::vector<std::pair<std::string, HandshakeGate::Pass>> inside;
  for (const std::string name : {"a", "a", "a", "b", "b"}) {
    gate->enter(name, [&inside, name](HandshakeGate::Pass pass) {
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
