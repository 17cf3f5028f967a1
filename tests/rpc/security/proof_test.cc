// The proofs are HMAC-SHA256 over what rpc/security/README.md says.
#include "rpc/security/proof.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gradwire::rpc {
namespace {

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }
std::string FromHex(absl::string_view hex) { return absl::HexStringToBytes(hex); }

TEST(ProofTest, HmacAgreesWithRfc4231) {
  struct Case {
    std::string key, message, wanted;
  };
  const std::vector<Case> cases = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {FromHex("0102030405060708090a0b0c0d0e0f10111213141516171819"), std::string(50, '\xcd'),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The "
       "key needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
      {"", "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
  };
  for (const Case& c : cases) EXPECT_EQ(Hex(HmacSha256(c.key, c.message)), c.wanted) << c.message;
}

TEST(ProofTest, ComparesWholeTexts) {
  EXPECT_TRUE(ConstantTimeEqual("", ""));
  EXPECT_TRUE(ConstantTimeEqual("abc", "abc"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "ab"));
  EXPECT_FALSE(ConstantTimeEqual("", "a"));
}

HelloTranscript Transcript() {
  HelloTranscript t;
  t.dialler = {1, 2, "default", "worker0", 77, std::string(32, 'n')};
  t.acceptor = {1, 3, "default", "ps0", 99, std::string(32, 'm')};
  t.session = 0x0123456789abcdef;
  return t;
}

TEST(ProofTest, EveryPartCounts) {
  using Change = std::function<void(HelloTranscript&)>;
  const std::vector<Change> changes = {[](HelloTranscript&) {},
                                       [](HelloTranscript& t) { ++t.session; },
                                       [](HelloTranscript& t) { ++t.dialler.version_major; },
                                       [](HelloTranscript& t) { ++t.dialler.version_minor; },
                                       [](HelloTranscript& t) { t.dialler.job += "x"; },
                                       [](HelloTranscript& t) { t.dialler.name += "x"; },
                                       [](HelloTranscript& t) { ++t.dialler.incarnation; },
                                       [](HelloTranscript& t) { t.dialler.nonce[0] ^= 1; },
                                       [](HelloTranscript& t) { ++t.acceptor.version_major; },
                                       [](HelloTranscript& t) { ++t.acceptor.version_minor; },
                                       [](HelloTranscript& t) { t.acceptor.job += "x"; },
                                       [](HelloTranscript& t) { t.acceptor.name += "x"; },
                                       [](HelloTranscript& t) { ++t.acceptor.incarnation; },
                                       [](HelloTranscript& t) { t.acceptor.nonce[31] ^= 1; },
                                       [](HelloTranscript& t) { std::swap(t.dialler, t.acceptor); },
                                       // The same bytes, cut elsewhere.
                                       [](HelloTranscript& t) {
                                         t.dialler.job = "defaultw";
                                         t.dialler.name = "orker0";
                                       }};
  std::set<std::string> seen;
  for (const Change& change : changes) {
    HelloTranscript t = Transcript();
    change(t);
    for (const char* token : {"token number one", "token number two"}) {
      seen.insert(HelloProof(token, HelloRole::kDialler, t));
      seen.insert(HelloProof(token, HelloRole::kAcceptor, t));
      seen.insert(SessionKey(token, t));
    }
  }
  EXPECT_EQ(seen.size(), changes.size() * 6);
  EXPECT_NE(BulkProof("k", 1, "n"), BulkProof("k", 2, "n"));
  EXPECT_NE(BulkProof("k", 1, "n"), BulkProof("k", 1, "m"));
  EXPECT_NE(BulkProof("k", 1, "n"), BulkProof("l", 1, "n"));
}

// The Python of the README, run with this transcript.
TEST(ProofTest, PythonOfTheReadmeGivesTheSame) {
  std::ifstream readme(GW_SECURITY_README);
  std::stringstream all;
  all << readme.rdbuf();
  const std::string text = all.str();
  const size_t begin = text.find("```python\n");
  const size_t end = text.find("```\n", begin + 10);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string program = absl::StrCat(text.substr(begin + 10, end - begin - 10), R"(
script = transcript((1, 2, b"default", b"worker0", 77, b"n" * 32),
                    (1, 3, b"default", b"ps0", 99, b"m" * 32), 0x0123456789abcdef)
token = b"sixteen bytes or more"
key = session_key(token, script)
print(hello_proof(token, b"dialler", script).hex(), hello_proof(token, b"acceptor", script).hex(),
      key.hex(), bulk_proof(key, 5, b"x" * 32).hex())
)");
  ASSERT_EQ(program.find('\''), std::string::npos);
  FILE* pipe = ::popen(absl::StrCat("python3 -c '", program, "'").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  char buffer[512];
  while (::fgets(buffer, sizeof(buffer), pipe) != nullptr) said += buffer;
  ASSERT_EQ(::pclose(pipe), 0);

  const std::string token = "sixteen bytes or more";
  const std::string key = SessionKey(token, Transcript());
  EXPECT_EQ(said, absl::StrCat(Hex(HelloProof(token, HelloRole::kDialler, Transcript())), " ",
                               Hex(HelloProof(token, HelloRole::kAcceptor, Transcript())), " ",
                               Hex(key), " ", Hex(BulkProof(key, 5, std::string(32, 'x'))), "\n"));
}

}  // namespace
}  // namespace gradwire::rpc
