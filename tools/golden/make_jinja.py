#!/usr/bin/env python3
"""Language goldens for the template engine: small templates, rendered by transformers' own jinja2 environment.

Writes tests/golden/templates/language.json, an array of {template, vars, out} or {template, vars, error}.
Run from the repository root, with transformers installed:  python tools/golden/make_jinja.py
"""
import json
from transformers.utils.chat_template_utils import _compile_jinja_template

V = {
    "s": "Hello, World", "u": "Grüße, 世界 🙂", "empty": "", "ws": " \t two  words \n", "lines": "one\ntwo\n\nthree\r\nfour",
    "n": 7, "z": 0, "neg": -3, "f": 2.5, "big": 9007199254740993, "t": True, "fl": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "a", "C"], "e": [], "nested": [[1, 2], [3, [4]]], "mix": [1, "a", None, True, 2.0, {"k": [1]}],
    "d": {"b": 1, "a": "x", "items": "shadow", "n": None}, "ed": {}, "q": "it's", "qq": "say \"hi\"", "both": "a'b\"c", "esc": "t\tn\nb\\x\x01é",
    "people": [{"name": "Bob", "age": 30, "x": {"y": 1}}, {"name": "alice", "age": 25, "x": {"y": 2}}, {"name": "Carl", "age": 30}],
    "html": "<a href=\"x\">&'</a>", "think": "<think>\nreason\n</think>\n\nanswer", "cjk": ["数", "学"], "flt": [0.1, 1e16, 1e-5, 1.0, 123456789.125, 1e100, 5e-324, -0.0],
}

def exprs(text):
    return ["{{ " + x.strip() + " }}" for x in text.strip().splitlines() if x.strip()]

CASES = exprs(r"""
s
u
nil
t
fl
n
f
big
l
mix
d
ed
e
nested
flt
q
[q, qq, both, esc, u]
undefined_name
undefined_name is defined
undefined_name|length
undefined_name ~ 'x'
undefined_name.attr
undefined_name['attr']
undefined_name + 1
d.missing
d.missing.more
d['missing']['more']
d.missing is defined
nil.attr
nil.attr.more
none.x is defined
s.missing is undefined
l.missing is undefined
d.items
d['items']
d.items()|list
d.keys()|list
d.values()|list
d.keys()
d.values()
d.items()
d.get('a')
d.get('zz')
d.get('zz', 'dflt')
d.get('n', 'dflt')
d.copy()
d.pop('a')
d.pop is defined
d.update({'x': 1})
l.append(4)
d['b']
d.b + 1
'b' in d
'zz' in d
'zz' not in d
1 in l
5 in l
'ell' in s
'' in s
nil in l
'a' in none
1 in s
l[0]
l[-1]
l[7]
l[7] is defined
l['x'] is defined
l[1:]
l[:-1]
l[::-1]
l[::2]
l[5:]
l[-2:]
l[2:0:-1]
s[0]
s[-1]
s[100]
s[1:4]
s[::-1]
s[:-3]
u[::-1]
u[0:3]
u[-1]
u[2]
u[7:9]
s[5:2]
s[-5:-2]
s[::3]
s[::-3]
s[10:2:-2]
(1,2,3)[1:]
(1,2)
(1,)
()
(1)
{'a': 1, 2: 'b', none: true, 1.5: []}
{'a': 1, 'a': 2}
{1: 'x', 1.0: 'y', true: 'z'}
{'a': 1}['a']
{'a': {'b': [1,2]}}.a.b[1]
{[1]: 2}
1 + 2 * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1 / 0
1 // 0
1 % 0
1.5 + 1
0.1 + 0.2
1e16
1e15
123456789012345678
1e22
1.0
100000000000000000000.0
1e-4
1e-5
3.0 // 2
-3.5 // 2
3.5 % 2
-3.5 % 2
3.5 % -2
1_000
0x1F
0b101
0o17
1.5e3
1e3
true + 1
true + true
-n
+n
-f
not n
not z
- -5
--5
n - -5
1 == 1.0
1 == true
'a' == 'a'
'a' != 'b'
'1' == 1
nil == none
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
1 < 2
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
'a' < 'b'
'a' < 'B'
[1, 2] < [1, 3]
(1, 2) < (1, 2, 0)
1 < 'a'
nil < 1
big == 9007199254740992.0
big > 9007199254740992.0
n > 6.5
1 if t else 2
1 if fl else 2
1 if fl
'x' if fl else 'y' if t else 'z'
t and 'x'
fl and 'x'
fl or 'x'
'' or 0 or 'last'
1 and 2 and 3
not t or t
not (t and fl)
s ~ n ~ nil ~ l
'a' ~ 1 + 2
'a' 'b' "c"
'a' + 'b'
'a' + 1
1 + 'a'
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1] * 3
[1] + [2]
(1,) + (2,)
[1] + (2,)
l - 1
'%s is %d' % ('x', 5)
'%s' % s
'%s' % l
'%s' % (l,)
'%r %s' % (q, q)
'%.2f' % f
'%d%%' % n
'%x' % 255
'%s %s' % ('a',)
strftime_now('%d %b %Y')|length
strftime_now('%Y-%m-%d').count('-')
'a' % []
'a' % 1
'a' % undefined_name
d.get([1])
[1] in d
ls.copy()
[none, none]|sort
people|sort(attribute='zz')|map(attribute='name')|list
'%s' % ('a', 'b')
'%(a)s-%(b)d' % {'a': 'x', 'b': 2}
'\n\t\\ \' \" \x41 \u00e9 \U0001F642 \q \101'|tojson
"it's"
'say "x"'
s.upper()
s.lower()
u.upper()
u.lower()
'ß'.upper()
'ΑΣ ΟΔΟΣ Σ'.lower()
'ﬁx ǆ'.title()
'ﬁx'.capitalize()
'hello world-foo bar'.title()
"they're bill's".title()
'hello wORLD'.capitalize()
ws.strip()
ws.lstrip()
ws.rstrip()
'xxhixx'.strip('x')
'xyhiyx'.strip('xy')
'xyhiyx'.lstrip('xy')
'xyhiyx'.rstrip('yx')
'  a '.strip(none)
'\u00a0 a\u3000'.strip()
'abc'.strip('')
s.split(', ')
s.split()
ws.split()
ws.split(none)
ws.split(none, 1)
'a  b  c'.split(' ')
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
' a  b c '.rsplit(none, 5)
''.split()
''.split(',')
'abc'.split('')
think.split('</think>')[-1].lstrip('\n')
think.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
lines.splitlines()
lines.splitlines(true)
s.startswith('Hell')
s.startswith(('x', 'H'))
s.startswith('W', 7)
s.endswith('World')
s.endswith(('x', 'd'))
s.endswith('x')
s.endswith('Hello', 0, 5)
s.startswith(1)
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
'aaa'.replace('aa', 'b')
'éé'.replace('', '.')
s.find('o')
s.find('zz')
s.find('o', 5)
u.find('世')
s.rfind('o')
s.index('W')
s.index('zz')
s.count('l')
'aaaa'.count('aa')
'abc'.count('')
', '.join(ls)
''.join([])
','.join([1, 2])
'-'.join('abc')
'-'.join({'a': 1, 'b': 2})
'{} and {}'.format('a', 1)
'{0}{1}{0}'.format('a', 'b')
'{x}-{y}'.format(x=1, y=none)
'{{}}'.format(1)
'{'.format(1)
'{} {}'.format(1)
'abc'.isalpha()
'ab1'.isalpha()
'12'.isdigit()
'²'.isdigit()
'²'.isdecimal()
'½'.isnumeric()
'ab1'.isalnum()
' \t'.isspace()
''.isspace()
'abC'.islower()
'ABC1'.isupper()
'a'.ljust(4) ~ '|'
'a'.rjust(4, '.') ~ '|'
'ab'.center(5, '*')
'abc'.center(6, '*')
'abc'.removeprefix('a')
'abc'.removesuffix('c')
'abc'.removesuffix('x')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
s.nope
s.nope()
s|upper
s|lower
s|title
'a-b (c) [d] {e} <f'|title
'foo BAR'|title
s|capitalize
ws|trim
'xxaxx'|trim('x')
nil|trim
n|trim
s|length
u|length
l|length
d|length
n|length
nil|length
l|count
s|reverse
u|reverse
l|reverse|list
l|reverse
l|first
l|last
e|first
e|first is defined
e|last
s|first
s|last
d|first
l|join
l|join('-')
ls|join(', ')
mix|join('|')
people|join(', ', attribute='name')
u|join(' ')
s|replace('o', '0')
s|replace('o', '0', 1)
n|replace(7, 8)
s|list
d|list
u|list
nil|list
n|string
nil|string
f|string
undefined_name|string
n|int
'12'|int
' 12 '|int
'12.7'|int
'x'|int
'x'|int(5)
'ff'|int(base=16)
'0x1f'|int(base=16)
f|int
nil|int
'1_000'|int
'1e3'|int
''|int
'12.5'|float
'x'|float
'x'|float(1.5)
n|float
' 1e3 '|float
neg|abs
f|abs
f|round
3.5|round
2.675|round(2)
n|round
2.1|round(method='ceil')
2.9|round(method='floor')
2.123|round(2, 'ceil')
undefined_name|default('x')
undefined_name|d('x')
''|default('x')
''|default('x', true)
nil|default('x')
nil|default('x', true)
nil|default('x', boolean=true)
undefined_name|default
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
mix|sort
d|dictsort
{'b': 1, 'A': 2, 'c': 0}|dictsort
{'b': 1, 'A': 2, 'c': 0}|dictsort(true)
{'b': 1, 'A': 2, 'c': 0}|dictsort(by='value')
{'b': 1, 'A': 2, 'c': 0}|dictsort(reverse=true)
d|items|list
undefined_name|items|list
l|items|list
people|map(attribute='name')|list
people|map(attribute='x.y')|list
people|map(attribute='x.y', default='-')|list
people|map(attribute='zz', default='-')|list
ls|map('upper')|list
ls|map('replace', 'a', 'x')|join
l|map('string')|join(',')
nested|map('first')|list
nested|map(attribute=0)|list
nested|map(attribute='1.0')|list
people|selectattr('age', 'equalto', 30)|map(attribute='name')|list
people|selectattr('age', '>', 26)|map(attribute='name')|list
people|selectattr('x')|map(attribute='name')|list
people|selectattr('x', 'defined')|map(attribute='name')|list
people|rejectattr('x', 'defined')|map(attribute='name')|list
people|selectattr('name', 'in', ['Bob', 'Carl'])|list|length
l|select('odd')|list
l|reject('odd')|list
l|select('>', 1)|list
mix|select|list
mix|reject|list
mix|select('string')|list
l|select('divisibleby', 2)|list
[1, 1, 2, 'a', 'A']|unique|list
[1, 1, 2, 'a', 'A']|unique(case_sensitive=true)|list
people|unique(attribute='age')|map(attribute='name')|list
l|min
l|max
ls|max
e|max
people|max(attribute='age')
l|sum
e|sum
people|sum(attribute='age')
l|sum(start=10)
[0.1, 0.2]|sum
[1,2,3,4,5]|batch(2)|list
[1,2,3]|batch(2, 'x')|list
lines|indent
lines|indent(2)
lines|indent(2, true)
lines|indent(2, first=true, blank=true)
lines|indent('> ')
''|indent
'a\n'|indent
html|e
html|escape
html|safe
html|e|e
n|e
html|safe|upper
'<b>' + html|safe
(html|safe) + '<b>'
'<b>' ~ html|safe
(html|safe)|string + '<i>'
(html|safe)|replace('<', '[')
(html|safe).replace('a', '<')
[html|safe]
(html|e)[0:4] + '<'
(html|safe)|tojson
s|center(20) ~ '|'
'%s-%s'|format('a', 1)
d|attr('b')
'abc'|attr('upper')
d|tojson
mix|tojson
u|tojson
u|tojson(ensure_ascii=true)
(u ~ '\x7f\x80')|tojson(ensure_ascii=true)
(u ~ '\x7f\x80')|tojson
esc|tojson
html|tojson
d|tojson(indent=2)
nested|tojson(indent=4)
nested|tojson(indent=0)
nested|tojson(indent='--')
nested|tojson(separators=(',', ':'))
d|tojson(sort_keys=true)
{'b': 1, 'a': {'d': 2, 'c': 3}}|tojson(sort_keys=true, indent=1)
e|tojson(indent=2)
ed|tojson(indent=2)
flt|tojson
nil|tojson
t|tojson
(1, 2)|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
undefined_name|tojson
range(3)|tojson
s is string
n is string
n is number
t is number
t is integer
n is integer
f is float
f is number
t is boolean
n is boolean
t is true
n is true
fl is false
z is false
nil is none
z is none
d is mapping
l is mapping
l is iterable
s is iterable
n is iterable
d is iterable
nil is iterable
l is sequence
s is sequence
d is sequence
n is sequence
undefined_name is iterable
undefined_name is sequence
undefined_name is none
undefined_name is string
undefined_name is undefined
undefined_name is not defined
(l|map('string')) is iterable
(l|map('string')) is sequence
(l|map('string')) is string
n is odd
n is even
n is divisibleby 7
n is divisibleby(2)
n is eq 7
n is ne 7
n is gt 3
n is lt(3)
n is ge 7
n is le 6
n is equalto 7
n is sameas 7
1 is in l
'a' is in ['a']
s is upper
'ABC' is upper
'abc' is lower
range is callable
s is callable
'upper' is filter
'nope' is filter
'odd' is test
n is not none and n is number
n is not odd
not n is odd
n == 7 is true
(html|safe) is escaped
range(4)|list
range(1, 4)|list
range(4, 0, -2)|list
range(3)
range(1, 7, 2)
range(10)[2:4]|list
range(10)[2:4]
range(10)[::-2]
range(3)|length
range(0)|list
range(100001)|length
range(1.5)
3 in range(5)
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1), ('b', 2)])
namespace(a=1)
namespace({'a': 1}, b=2).b
namespace(_x=1)
raise_exception('boom ' ~ n)
raise_exception
undefined_function()
n()
s|nofilter
s is notest
loop
people[0].name
people[0]['name']
people[0].x.y
people.0.name
people|length > 2
(people|length - 1) * 2
people[people|length - 1].name
d.items() | list | length
[x for x in l]
l[0
s +
{{ 1 }}
'a' if
1 +* 2
n is divisibleby 7 or false
[1, 2, 3,]
{'a': 1,}
[]
['a', ['b', ['c']]]
'é' ~ 'ñ'
"\u4e16"
'a\
b'
l == l|list
[none, true, false]
[None, True, False]
[undefined_name]
{'k': undefined_name}
1.0 == 1
1.5 in [1.5]
'x' * 3 ~ 'y'
(1 if t) ~ 'x'
n if n > 5 else z
- n + 10
-n|abs
2 - 1|abs
n|string + 'x'
n ~ 'x'|upper
'abc'[1]|upper
'a,b'.split(',')[1].upper()
('a,b'.split(',')|last).upper()
s.split(',')|first|trim|length
u|upper|lower|title
cjk|join('')
[1,2,3]|reverse|first
(l|map('string'))|first
[[1,2],[3,4]]|sum(start=[])
l|sort|join(',')|replace(',', ';')
d['a'] ~ d.a
5 // 2 * 2 + 5 % 2
""")

STATEMENTS = [
    "{% set x = 1 %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x, y = [1, 2, 3] %}{{ x }}{{ y }}",
    "{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper %}abc{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}",
    "{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace() %}{% set ns.x = 5 %}{{ ns.x }}{{ ns.y is defined }}{{ ns }}",
    "{% set d2 = {} %}{% set d2.x = 5 %}",
    "{% set nons.x = 5 %}",
    "{% set ns = namespace(a=1) %}{% set ns._b = 1 %}",
    "{% set ns = namespace(a=1, b=2) %}{% set ns.a, ns.b = ns.b, ns.a %}{{ ns.a }}{{ ns.b }}",
    "{% for i in l %}{{ i }}{% endfor %}",
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}",
    "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}",
    "{% for i in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% for i in l %}{% for j in ls %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for i in e %}x{% else %}empty{% endfor %}",
    "{% for i in l %}x{% else %}empty{% endfor %}",
    "{% for i in undefined_name %}x{% else %}empty{% endfor %}",
    "{% for i in nil %}x{% endfor %}",
    "{% for i in n %}x{% endfor %}",
    "{% for k in d %}{{ k }},{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %}",
    "{% for k, v in d|dictsort %}{{ k }}={{ v }},{% endfor %}",
    "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}",
    "{% for a, b in [[1, 2], (3, 4)] %}{{ a }}-{{ b }};{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.length }}{{ loop.revindex }}{{ i }}{% endfor %}",
    "{% for i in l if i > 5 %}x{% else %}none{% endfor %}",
    "{% set ns = namespace(go=true) %}{% for i in [1,2,3,4] if ns.go %}{{ i }}{% if i == 2 %}{% set ns.go = false %}{% endif %}{% endfor %}",
    "{% set ns = namespace(go=true) %}{% for i in [1,2,3,4] if ns.go %}{{ i }}{{ loop.last }}{% if i == 2 %}{% set ns.go = false %}{% endif %}{% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% continue %}{% endif %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% break %}{% else %}empty{% endfor %}",
    "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ j }}{% endfor %};{% endfor %}",
    "{% break %}",
    "{% for i in l %}{% set x = i %}{% endfor %}{{ x is defined }}",
    "{% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}",
    "{% set x = 0 %}{% for i in l %}{{ x }}{% set x = i %}{% endfor %}",
    "{% for i in l %}{{ x is defined }}{% set x = i %}{{ x }}{% endfor %}",
    "{% for i in l %}{% if loop.first %}{% set y = 1 %}{% endif %}{{ y is defined }}{% endfor %}",
    "{% for n in l %}{{ n }}{% endfor %}{{ n }}",
    "{% for i in l %}{% set loop_i = loop.index %}{% if true %}{% set q = i %}{% endif %}{{ q }}{% endfor %}",
    "{% if t %}a{% elif fl %}b{% else %}c{% endif %}",
    "{% if fl %}a{% elif t %}b{% else %}c{% endif %}",
    "{% if fl %}a{% elif fl %}b{% else %}c{% endif %}",
    "{% if e %}a{% endif %}{% if not e %}b{% endif %}",
    "{% if undefined_name %}a{% else %}b{% endif %}",
    "{% if t %}{% set x = 1 %}{% endif %}{{ x }}",
    "{% if n == 7 and (s or nil) %}y{% endif %}",
    "{% if 'a' in ls and 'z' not in ls %}y{% endif %}",
    "{% if n, %}tuple{% endif %}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ a }}{{ varargs|length }}{{ kwargs|length }}{% endmacro %}{{ m(1, 2, 3, x=3) }}",
    "{% macro fact(k) %}{% if k > 1 %}{{ k }}*{{ fact(k - 1) }}{% else %}1{% endif %}{% endmacro %}{{ fact(5) }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% macro m() %}{{ i is defined }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}",
    "{% macro m() %}  hi  {% endmacro %}[{{ m()|trim }}][{{ m() | upper }}]",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('<') + '>' }}{{ m(1) is string }}",
    "{% macro m() %}a{% endmacro %}{{ m }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ n }}{% endcall %}",
    "{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}[{{ caller is defined }}]{% endmacro %}{{ m() }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m(*args) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b')|upper %}abc{% endfilter %}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x is defined }}",
    "{% with x = n %}{% set n = 1 %}{{ n }}{{ x }}{% endwith %}{{ n }}",
    "{% set x = 9 %}{% with x = 1, y = x %}{{ y }}{% endwith %}",
    "{% with %}{% set zz = 1 %}{{ zz }}{% endwith %}{{ zz is defined }}",
    "{% generation %}a{{ n }}{% endgeneration %}b",
    "{% print n %}{% print n, s %}",
    "{# comment #}a{# multi\nline #}b",
    "{#- c -#} a {#- c -#} b",
    "a\n{# c #}\nb",
    "  {# c #}\n  b",
    "{% raw %}{{ x }}{% if %}{% endraw %}",
    "a {%- raw -%} {{ x }} {%- endraw -%} b",
    "{% raw %}\n x \n{% endraw %}\ny",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if t %}\n  b\n  {%- endif %}\nc\n",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc\n",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc\n",
    "a\n  {% if t +%}\n  b\n  {% endif +%}\nc\n",
    "a  {% if t %}  b  {% endif %}  c",
    "a\n\t {% if t %}x{% endif %}\n\n\nb",
    "{% if t %}\n\nx\n\n{% endif %}\n\n",
    "a\n  {{ n }}\n  b",
    "a\n  {{- n -}}\n  b",
    "a {{- n }} b {{ n -}} c",
    "a\n",
    "a\n\n",
    "a\r\nb\rc\r\n",
    "{% set x = 'a\r\nb' %}{{ x|tojson }}",
    "\n\n{% if t %}\n{% endif %}\n",
    "   {% if t %}x{% endif %}   ",
    "x {% if t %}\ny{% endif %}",
    "{%if t%}a{%endif%}",
    "{%-if t-%} a {%-endif-%}",
    "{{'a'}}{{-'b'-}}",
    "{{ '}}' }}{{ '{{' }}{{ '%}' }}",
    "{{ {'a': {'b': 1}}}}",
    "{{ {'a': 1}['a']}}",
    "{ {n} } {%", "{{", "{% if t %}", "{% endif %}", "{% else %}", "{% for %}", "{% for x in %}", "{% if %}x{% endif %}", "{% nope %}",
    "{{ }}", "{{ 1 2 }}", "{# unclosed", "{{ 'unclosed }}", "{% raw %}x", "{% set 1 = 2 %}", "{% set x.y.z = 2 %}", "{{ a..b }}", "{{ a.1b }}", "{{ (1 }}", "{{ 1) }}", "{{ $ }}",
    "{{ x = 1 }}", "{{ f(a=1, 2) }}", "{{ f(**d, **d) }}", "{% for a.b in l %}{% endfor %}", "{% endfor %}", "{% if t %}{% endfor %}",
    "a { b } c # d % e {", "{{ '%' }}%}", "}} %} #}",
    "{% set x = namespace(v=[]) %}{% for i in l %}{% set x.v = x.v + [i] %}{% endfor %}{{ x.v }}",
    "{% for m in people %}{% if loop.first %}{{ m.name }}{% elif m.age is defined and m.age > 25 %}{{ m['age'] }}{% endif %}{% endfor %}",
    "{% for p in people[::-1] %}{{ (people|length - 1) - loop.index0 }}{{ p.name }}{% endfor %}",
    "{% set x = s if s is string else s|tojson %}{{ x }}",
    "{% macro m(*, a) %}{% endmacro %}",
    "{% macro m(a, b='x', c=none) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'c': 3}) }}{{ m(1, *[2], c=4) }}",
    "{% if n > 5 %}{% if n > 6 %}{% if n > 7 %}a{% else %}b{% endif %}{% endif %}{% endif %}",
    "{% set it = l|map('string') %}{{ it|list }}{{ it|list }}",
    "{% set it = l|map('string') %}{{ it|first }}{{ it|list }}",
    "{% set it = l|map('string') %}{{ '1' in it }}{{ it|list }}",
    "{% for i in l|map('string') %}{{ loop.length }}{{ loop.last }}{{ i }}{% endfor %}",
    "{% for x in l|reverse %}{{ x }}{{ loop.revindex }}{% endfor %}",
    "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set x %}\n  a\n{% endset %}{{ x|tojson }}",
    "{% for i in l -%}\n  {{ i }}\n{%- endfor %}",
    "{% for i in l %}\n{{ i }}\n{% endfor %}",
    "{% for i in l %}\n  {{- i }}\n{% endfor %}",
    "{{ n }}\n{{ n }}\n",
    "{% set a = 1 -%}\n\n {% set b = 2 %}\n\n{{ a + b }}",
    "{%- for message in people %}\n    {%- if message.age == 30 %}\n        {{- '<|' + message.name + '|>\\n' }}\n    {%- endif %}\n{%- endfor %}",
    "{% set loop = 5 %}{{ loop }}",
    "{% for i in l %}{% set ls = [] %}{% endfor %}{{ ls|length }}",
    "{% for item in d.items() %}{{ item[0] }}:{{ item.1 }} {% endfor %}",
    "{% for x in [1,2] %}{% filter upper %}a{{ x }}{% endfilter %}{% endfor %}",
    "{% for x in [1,2,3] %}{% set y %}a{% if x == 2 %}{% continue %}{% endif %}b{% endset %}{{ y }}{% endfor %}",
    "{{ n }}{% if fl %}{{ s|nofilter }}{% endif %}",
    "{% set x = {'a': [1, 2, {'b': 'c'}]} %}{{ x.a[2].b }}{{ x['a'][-1]['b'] }}",
    "{% set s2 = '' %}{% for c in ls %}{% set s2 = s2 ~ c %}{% endfor %}[{{ s2 }}]",
    "line {{ n }} of\n{% if n %}text{% endif %}\n",
    "{%- set x = 1 %}   {{- x }}",
    "{% if t %}a\n{% endif %}b",
    "{% if t -%}\n a\n{%- endif %}b",
    "\t{%- if t %} a{% endif -%}\t\n b",
    "{{ 'a'\n~\n'b' }}",
    "{% if\nt\n%}x{% endif %}",
    "{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% set m = people|selectattr('name', 'eq', 'Bob')|first %}{{ m.age }}",
    "{% set m = people|selectattr('name', 'eq', 'Zed')|first %}{{ m is defined }}",
    "{% set c = namespace(n=0) %}{% macro inc() %}{% set c.n = c.n + 1 %}{{ c.n }}{% endmacro %}{{ inc() }}{{ inc() }}",
    "{{ strftime_now is defined }}{{ raise_exception is defined }}{{ documents is none }}",
    "{% if s is not string %}{{ raise_exception('x') }}{% endif %}ok",
    "{% do l.append(1) %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% block a %}{% endblock %}",
    "{% for i in l recursive %}{{ i }}{% endfor %}", "{% autoescape true %}{% endautoescape %}",
    "{{ cycler('a').next() }}", "{{ s.zfill(3) }}", "{{ s|wordcount }}", "{{ s|xmlattr }}", "{{ people|groupby('age') }}",
]
CASES += STATEMENTS

def main():
    rows = []
    for t in CASES:
        row = {"template": t}
        try:
            row["out"] = _compile_jinja_template(t).render(documents=None, **V)
            if " at 0x" in row["out"]:
                row = {"template": t, "error": "prints an address"}
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {e}"[:200]
        rows.append(row)
    with open("tests/golden/templates/language.json", "w") as f:
        f.write('{"vars": ' + json.dumps(V, ensure_ascii=False) + ',\n "cases": [\n')
        f.write(",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]}\n")
    print(len(rows), "cases,", sum("error" in r for r in rows), "errors")

main()
