"""Style sheet of the status page, and its hash for the Content-Security-Policy.

Colours are checked against WCAG 2.2 AA (1.4.3: 4.5:1 for text; 1.4.11: 3:1 for graphics) in both
schemes by the browser tests.
"""

from __future__ import annotations

import base64
import hashlib

from iowarden.daemon.page import script

STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--text:#1b1f24;--soft:#57606a;
--line:#d0d7de;--link:#0a58ca;--focus:#0a58ca;--head:#24292f;--code:#f0f2f5;
--critical:#b3001b;--critical-bg:#ffe3e6;--warning:#7a4a00;--warning-bg:#fff0cf;
--notice:#0b4f8a;--notice-bg:#e1effc;--ok:#116329;--ok-bg:#dcf5e3;
--unknown:#6b2fa0;--unknown-bg:#f1e6fb;--chart:#0b63b8;--fill:#cfe3f7;--limit:#b3001b;
--onset:#9a5b00}
@media(prefers-color-scheme:dark){:root{--bg:#0f1419;--card:#181f26;--text:#e6eaef;--soft:#a5b0bc;
--line:#38424d;--link:#7ab8ff;--focus:#ffd866;--head:#f0f3f6;--code:#222b34;
--critical:#ff9aa5;--critical-bg:#4a1119;--warning:#ffcf70;--warning-bg:#402d05;
--notice:#93c9ff;--notice-bg:#12304d;--ok:#7fdc9b;--ok-bg:#0f3a1f;
--unknown:#d5b3f7;--unknown-bg:#37204f;--chart:#6db3f2;--fill:#1d3d5c;--limit:#ff8793;
--onset:#ffcf70}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,button:focus-visible,[tabindex]:focus-visible{
outline:3px solid var(--focus);outline-offset:2px}
.skip{position:absolute;left:-999px;top:0;background:var(--card);padding:.6rem 1rem;z-index:1}
.skip:focus{left:0}
header,main,footer{max-width:76rem;margin:0 auto;padding:0 1rem}
header{padding-top:1rem}
.top{display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:baseline}
.top .at{color:var(--soft);margin-left:auto}
.top button{font:inherit;padding:.1rem .5rem}
h1{font-size:1.5rem;margin:0;color:var(--head);overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:0 0 .6rem;color:var(--head)}
h3{font-size:1.05rem;margin:0 0 .3rem;overflow-wrap:anywhere}
h4{font-size:.95rem;margin:.9rem 0 .2rem;color:var(--head)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:0 .3rem;padding:0;margin:.6rem 0 0;
font-size:.92rem}
nav a{display:inline-block;padding:.3rem .5rem;margin-left:-.5rem}
section,.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;
padding:1rem;margin:1rem 0}
section>.card{background:none;margin:.8rem 0 0}
.state{display:block;padding:.6rem .8rem;border-radius:.3rem;
border-left:.4rem solid;font-size:1.1rem;font-weight:600}
.state p{margin:0}
p{margin:.3rem 0;overflow-wrap:anywhere}
.soft,caption,dt{color:var(--soft)}
.critical{color:var(--critical)}.warning{color:var(--warning)}.notice,.info{color:var(--notice)}
.ok{color:var(--ok)}.unknown{color:var(--unknown)}
.badge{display:inline-block;border-radius:.3rem;padding:0 .45rem;font-size:.85rem;font-weight:700;
white-space:nowrap}
.badge.critical,.state.critical{background:var(--critical-bg)}
.badge.warning,.state.warning{background:var(--warning-bg)}
.badge.notice,.badge.info,.state.notice{background:var(--notice-bg)}
.badge.ok,.state.ok{background:var(--ok-bg)}
.badge.unknown,.state.unknown{background:var(--unknown-bg)}
.state *{color:inherit}
.incident{border-left:.4rem solid var(--line)}
.incident.critical{border-left-color:var(--critical)}
.incident.warning{border-left-color:var(--warning)}
.incident.notice,.incident.info{border-left-color:var(--notice)}
.incident{color:var(--text)}
.scroll{overflow-x:auto;margin-top:.8rem}
li strong{font-weight:600}
table{border-collapse:collapse;width:100%;font-size:.92rem}
caption{text-align:left;padding-bottom:.3rem}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);
vertical-align:top}
thead th{white-space:nowrap;color:var(--soft);font-weight:600}
tbody th{font-weight:600}
tr:last-child>*{border-bottom:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.w{min-width:16rem;overflow-wrap:anywhere}
.k{white-space:nowrap}
.d1{padding-left:1.2rem}.d2{padding-left:2.4rem}.d3{padding-left:3.6rem}.d4{padding-left:4.8rem}
.d1::before,.d2::before,.d3::before,.d4::before{content:"\\2514\\00a0";color:var(--soft);
font-weight:400}
pre{background:var(--code);border-radius:.3rem;padding:.5rem .7rem;margin:.3rem 0;overflow-x:auto;
font:.9rem/1.45 ui-monospace,"DejaVu Sans Mono",monospace}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.3rem 0}
dd{margin:0;overflow-wrap:anywhere}
ul.plain{margin:.2rem 0;padding-left:1.2rem}
li{overflow-wrap:anywhere}
summary{cursor:pointer;padding:.2rem 0;color:var(--link)}
svg{display:block;max-width:100%}
.spark{color:var(--chart)}
.chart{width:100%;height:9rem;color:var(--chart)}
.area{fill:var(--fill)}
.limit{stroke:var(--limit)}.onset{stroke:var(--onset)}
figure{margin:0}figcaption{color:var(--soft);font-size:.92rem}
.meter{height:1rem;width:100%;color:var(--chart)}
.back{fill:var(--code)}
footer{color:var(--soft);font-size:.9rem;padding-bottom:2rem}
@media(max-width:40rem){body{font-size:15px}section,.card{padding:.75rem}
.top .at{margin-left:0;width:100%}dl{grid-template-columns:1fr}dt{margin-top:.3rem}
section>.card{padding:.6rem}
.stack thead{position:absolute;left:-999rem}
.stack tr{display:block;padding:.5rem 0;border-bottom:1px solid var(--line)}
.stack tr:last-child{border:0}
.stack th,.stack td{display:inline-block;border:0;padding:0 .6rem 0 0}
.stack .w{display:block;min-width:0}}
@media print{nav,.skip{display:none}body{background:none}}
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; script-src 'sha256-{script.DIGEST}';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of each page: no script but ours, which loads this service's pages."""
