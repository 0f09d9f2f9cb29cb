// Which login of a user's files an image needs: that one, and no other.
#include "launcher/image/registry.h"

#include "tests/catch.h"

using namespace muster;

namespace {

const AskHelper no_helper = [](const std::string&, const std::string&) -> Result<std::string> {
  return Error{"not to be asked"};
};

std::string login(const std::string& text, const std::string& name) {
  const auto found = login_in(text, name, no_helper);
  return found ? *found : "error: " + found.error().message;
}

}  // namespace

TEST_CASE("of all logins that of the image's registry alone is taken") {
  const std::string text = R"({"auths": {"a.io": {"auth": "YTox"}, "b.io:5000": {"auth": "Yjoy"},
      "https://index.docker.io/v1/": {"auth": "aHVi"}, "https://old.io/v1/": {"auth": "b2xk"}}})";
  CHECK(login(text, "a.io/x:1") == R"({"auths":{"a.io":{"auth":"YTox"}}})");
  CHECK(login(text, "b.io:5000/x/y:1") == R"({"auths":{"b.io:5000":{"auth":"Yjoy"}}})");
  CHECK(login(text, "docker.io/library/x:1") ==
        R"({"auths":{"docker.io":{"auth":"aHVi"},"https://index.docker.io/v1/":{"auth":"aHVi"}}})");
  CHECK(login(text, "old.io/x:1") == R"({"auths":{"old.io":{"auth":"b2xk"}}})");
  CHECK(login(text, "b.io/x:1").empty());
  CHECK(login(text, "a.io.evil/x:1").empty());
}

TEST_CASE("a login for a part of a registry goes before that of the whole") {
  const std::string text =
      R"({"auths": {"a.io": {"auth": "d2hvbGU="}, "a.io/team": {"auth": "dGVhbQ=="}}})";
  CHECK(login(text, "a.io/team/x:1") == R"({"auths":{"a.io/team":{"auth":"dGVhbQ=="}}})");
  CHECK(login(text, "a.io/teams/x:1") == R"({"auths":{"a.io":{"auth":"d2hvbGU="}}})");
}

TEST_CASE("a helper is asked for its registry, and its answer becomes a login") {
  std::string asked;
  const AskHelper ask = [&](const std::string& helper, const std::string& server) {
    asked = helper + " " + server;
    return Result<std::string>(R"({"Username": "ann", "Secret": "s3"})");
  };
  const std::string text = R"({"credHelpers": {"a.io": "acr"}, "credsStore": "desktop",
      "auths": {"a.io": {}}})";
  CHECK(*login_in(text, "a.io/x:1", ask) == R"({"auths":{"a.io":{"auth":"YW5uOnMz"}}})");
  CHECK(asked == "acr a.io");
  CHECK(login_in(text, "docker.io/library/x:1", ask)
            ->starts_with(R"({"auths":{"docker.io":{"auth":"YW5uOnMz"},)"));
  CHECK(asked == "desktop https://index.docker.io/v1/");
  const AskHelper token = [](const std::string&, const std::string&) {
    return Result<std::string>(R"({"Username": "<token>", "Secret": "t"})");
  };
  CHECK(*login_in(text, "a.io/x:1", token) == R"({"auths":{"a.io":{"identitytoken":"t"}}})");
}

TEST_CASE("a helper that fails is told; a file that is none, or has no login, is not") {
  CHECK(login(R"({"credsStore": "desktop"})", "a.io/x:1") == "error: not to be asked");
  CHECK(login("", "a.io/x:1").empty());
  CHECK(login("[1, 2]", "a.io/x:1").empty());
  CHECK(login(R"({"auths": {"a.io": {}}})", "a.io/x:1").empty());
  CHECK(login(R"({"auths": {"a.io": 7}})", "a.io/x:1").empty());
}
